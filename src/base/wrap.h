// Lines that fit a width. They break between words, but not between a number and its unit. A word
// that is longer than the width stays whole, on a line of its own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stretto {

// Columns that a text takes on a terminal: two for wide characters, none for combining marks and
// colour codes.
size_t width_of(std::string_view text);

// One line as several without the last line's end; all but the first are indented by `hanging`.
// `taken`: columns in front of the first one.
std::string wrapped(std::string_view line, size_t width, size_t hanging, size_t taken = 0);

// A page whose long lines are wrapped. What goes on stands under the line's last column of text
// (columns are two spaces apart) if that leaves it 20 columns, otherwise it is indented a little
// more than the line; for lines without indentation `hanging` says how much.
std::string fit_page(std::string_view page, size_t width, size_t hanging = 4);

// A command for a shell, indented; lines that go on end in a backslash, so that it can be copied.
std::string wrapped_command(std::string_view command, size_t width, size_t indent);

}  // namespace stretto
