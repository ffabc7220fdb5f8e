// A terminal's width, and text that cannot steer it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

// Columns for lines on stdout: $COLUMNS if it is set, else those of the terminal, and 80 where
// stdout is no terminal. At least 40.
size_t output_width();
// The same for messages, which go to stderr.
size_t message_width();

// Code points that terminals obey instead of showing them, or that reorder the text around them:
// C0, DEL, C1, bidirectional controls, line and paragraph separators.
bool steers_terminals(uint32_t code);

// Text for stdout that models, files or users wrote. On a terminal, what would steer it is escaped
// (line ends and tabs stay); a file or a pipe gets every byte as it is.
std::string for_stdout(std::string_view text);

}  // namespace stretto
