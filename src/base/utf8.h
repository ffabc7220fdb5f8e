// Text as UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

struct CodePoint {
  uint32_t code = 0;
  uint32_t bytes = 0;  // 0: no valid character begins here
};

// The character at the start of `text`; strict: no overlong forms, surrogates or stray bytes.
CodePoint decode_utf8(std::string_view text);
// Same for text known to be valid.
CodePoint decode_valid_utf8(const char* at);
void append_utf8(std::string& out, uint32_t code);

// Length of the longest valid prefix.
size_t valid_utf8_prefix(std::string_view text);
// Bytes at the end that may be the beginning of a longer character: 0 to 3.
size_t incomplete_utf8_suffix(std::string_view text);

}  // namespace stretto
