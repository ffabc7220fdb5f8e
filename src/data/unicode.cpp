#include "data/unicode.h"

#include <algorithm>
#include <vector>

#include "base/utf8.h"
#include "data/unicode_tables.h"

namespace stretto {
namespace {

constexpr uint32_t kCodes = 0x110000;

std::vector<CharClass> build_classes() {
  std::vector<CharClass> classes(kCodes, CharClass::other);
  const auto fill = [&](std::span<const CodeRange> ranges, CharClass value) {
    for (const auto [first, last] : ranges) {
      std::fill(classes.begin() + first, classes.begin() + last + 1, value);
    }
  };
  fill(unicode_letters(), CharClass::letter);
  fill(unicode_numbers(), CharClass::number);
  // The White_Space property, stable since Unicode 6.3.
  constexpr CodeRange kSpaces[] = {
      {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
      {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
  fill(kSpaces, CharClass::space);
  return classes;
}

std::array<uint32_t, 256> build_byte_characters() {
  std::array<uint32_t, 256> characters{};
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}

}  // namespace

const CharClass* char_classes() {
  static const std::vector<CharClass> classes = build_classes();
  return classes.data();
}

const std::array<uint32_t, 256>& byte_characters() {
  static const std::array<uint32_t, 256> characters = build_byte_characters();
  return characters;
}

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, byte_characters()[static_cast<unsigned char>(c)]);
  return out;
}

bool unspell_bytes(std::string_view spelled, std::string& bytes) {
  static const auto inverse = [] {
    std::array<int16_t, 512> table;
    table.fill(-1);
    for (int16_t byte = 0; byte < 256; ++byte) table[byte_characters()[size_t(byte)]] = byte;
    return table;
  }();
  bytes.clear();
  while (!spelled.empty()) {
    const CodePoint point = decode_utf8(spelled);
    if (point.bytes == 0 || point.code >= inverse.size() || inverse[point.code] < 0) return false;
    bytes.push_back(static_cast<char>(inverse[point.code]));
    spelled.remove_prefix(point.bytes);
  }
  return true;
}

}  // namespace stretto
