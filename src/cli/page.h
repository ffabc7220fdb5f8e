// What verbs print for people.
#pragma once

#include <cstddef>
#include <string_view>

namespace stretto::cli {

// Prints text on stdout: long lines wrapped to its width, and nothing in it steers a terminal.
// `hanging`: as in fit_page(); 0 for sentences.
void write_page(std::string_view text, size_t hanging = 4);

}  // namespace stretto::cli
