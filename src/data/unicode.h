// What the tokenizer needs from Unicode: three character classes, NFC, and the printable characters
// that stand for bytes in tokenizer files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

enum class CharClass : uint8_t { other, letter, number, space };

// The class of every code point below 0x110000, one byte each (built once, 1.1 MB).
const CharClass* char_classes();

// Canonical composition (NFC) of valid UTF-8.
std::string normalize_nfc(std::string_view text);

// Byte-level vocabularies spell each byte as one printable character: printable Latin-1 as itself,
// all others as 256 and up in order.
const std::array<uint32_t, 256>& byte_characters();
std::string spell_bytes(std::string_view bytes);
// The inverse; false if a character stands for no byte.
bool unspell_bytes(std::string_view spelled, std::string& bytes);

}  // namespace stretto
