// Normalization form C: what composes, what is in the way, and in which order marks stand.
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "data/unicode.h"

namespace stretto {
namespace {

std::string utf8(std::initializer_list<uint32_t> codes) {
  std::string text;
  for (const uint32_t code : codes) append_utf8(text, code);
  return text;
}

struct Case {
  std::initializer_list<uint32_t> text, normal;
};

// The answers are those of Python's unicodedata.
TEST(Nfc, ComposesWhatUnicodeComposes) {
  const Case cases[] = {
      {{0x61, 0x301}, {0xe1}},
      {{0x300, 0x61, 0x300}, {0x300, 0xe0}},         // a mark without a letter stays
      {{0x61, 0x305, 0x301}, {0x61, 0x305, 0x301}},  // one of its class is in the way
      {{0x61, 0x345, 0x301}, {0xe1, 0x345}},         // of another class: it is not
      {{0x61, 0x301, 0x323}, {0x1ea1, 0x301}},       // below goes first
      {{0x73, 0x307, 0x323}, {0x1e69}},
      {{0x1e69}, {0x1e69}},
      {{0x3b1, 0x345, 0x301}, {0x1fb4}},
      {{0x212b}, {0xc5}},  // one character for another
      {{0x2126}, {0x3a9}},
      {{0x344}, {0x308, 0x301}},  // never composed again
      {{0x958}, {0x915, 0x93c}},
      {{0xfb1d}, {0x5d9, 0x5b4}},
      {{0x1100, 0x1161, 0x11a8}, {0xac01}},  // Hangul
      {{0xac00, 0x11a8}, {0xac01}},
      {{0x1100, 0x1161, 0x301, 0x11a8}, {0xac00, 0x301, 0x11a8}},
      {{0x9c7, 0x9be}, {0x9cb}},  // two letters, if they are neighbours
      {{0x9c7, 0x301, 0x9be}, {0x9c7, 0x301, 0x9be}},
      {{0xb47, 0xb57, 0xb3e}, {0xb4c, 0xb3e}},
      {{0x1b05, 0x1b35}, {0x1b06}}};
  for (const Case& c : cases) {
    const std::string text = utf8(c.text), normal = utf8(c.normal);
    EXPECT_EQ(normalize_nfc(text), normal) << text;
    EXPECT_EQ(normalize_nfc(normal), normal) << text << ", twice";
    EXPECT_EQ(normalize_nfc("_" + text + "\n" + text), "_" + normal + "\n" + normal);
  }
}

// All Hangul syllables, by their formula.
TEST(Nfc, SyllablesAreMadeOfTheirLetters) {
  uint32_t syllable = 0xac00;
  for (uint32_t lead = 0x1100; lead < 0x1100 + 19; ++lead) {
    for (uint32_t vowel = 0x1161; vowel < 0x1161 + 21; ++vowel) {
      for (uint32_t tail = 0x11a7; tail < 0x11a7 + 28; ++tail, ++syllable) {
        const std::string letters =
            tail == 0x11a7 ? utf8({lead, vowel}) : utf8({lead, vowel, tail});
        ASSERT_EQ(normalize_nfc(letters), utf8({syllable})) << syllable;
        ASSERT_EQ(normalize_nfc(utf8({syllable})), utf8({syllable})) << syllable;
      }
    }
  }
  EXPECT_EQ(syllable, 0xd7a4u);
}

}  // namespace
}  // namespace stretto
