// What the tokenizer needs to know about Unicode: UTF-8, three character classes, NFC, and the
// printable stand-ins for bytes in tokenizer files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

enum class CharClass : uint8_t { other, letter, number, space };

// The class of every code point below 0x110000, one byte each (built once, 1.1 MB).
const CharClass* char_classes();

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
// Bytes at the end that begin a character which may still be completed: 0 to 3.
size_t incomplete_utf8_suffix(std::string_view text);

// Canonical composition (NFC) of valid UTF-8.
std::string normalize_nfc(std::string_view text);

// Byte-level vocabularies spell each byte as one printable character: itself for printable Latin-1,
// else 256 and up in order.
const std::array<uint32_t, 256>& byte_characters();
std::string spell_bytes(std::string_view bytes);
// The inverse; false when a character stands for no byte.
bool unspell_bytes(std::string_view spelled, std::string& bytes);

}  // namespace stretto
