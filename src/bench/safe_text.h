// Text from names, reasons and logs, made inert for where it is shown.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

// Escape sequences and control characters removed; line ends and tabs become spaces unless kept.
std::string without_control(std::string_view text, bool keep_lines = false);

// Without control characters, line ends and indentation as one space; what is longer is cut.
std::string one_line(std::string_view text, size_t most = std::string::npos);

// One CSV field: control characters removed, quoted where needed, and a leading = + - @ disarmed
// with an apostrophe, so that no spreadsheet takes it for a formula. Plain numbers stay numbers.
std::string csv_field(std::string_view text);

// One Markdown table cell: pipes, angle brackets and other markup escaped.
std::string markdown_cell(std::string_view text);

// Text inside HTML or SVG, and inside quotes there.
std::string markup_text(std::string_view text);

}  // namespace stretto
