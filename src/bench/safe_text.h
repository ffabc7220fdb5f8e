// Makes text from names, reasons and logs harmless where it is shown.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

// Removes escape sequences and control characters; line ends and tabs become spaces unless kept.
std::string without_control(std::string_view text, bool keep_lines = false);

// Without control characters; line ends and indentation become one space. Longer text is cut.
std::string one_line(std::string_view text, size_t most = std::string::npos);

// One CSV field: control characters removed, quoted if necessary, and an apostrophe put before a
// leading = + - @, so that no spreadsheet takes it for a formula. Plain numbers stay numbers.
std::string csv_field(std::string_view text);

// One cell of a Markdown table: pipes, angle brackets and other markup are escaped.
std::string markdown_cell(std::string_view text);

// Escapes text for HTML or SVG, also inside quotes.
std::string markup_text(std::string_view text);

}  // namespace stretto
