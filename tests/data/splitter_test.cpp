#include "data/splitter.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "base/utf8.h"
#include "support/expect_error.h"

namespace stretto {
namespace {

std::vector<std::string> pieces(const Splitter& splitter, std::string_view text) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = splitter.next(text, begin);
    EXPECT_GT(end, begin);
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

// Characters the two sides know differently: assigned after Unicode 14 (PCRE2 10.42 calls them
// unassigned), and U+180E, a space to PCRE2 but not to Unicode since 6.3.
bool same_for_both(uint32_t code) {
  if (code == 0x180e) return false;
  static const auto unassigned = make_regex_splitter(R"(\p{Cn}+)");
  std::string text;
  append_utf8(text, code);
  text += "a";
  return unassigned->next(text, 0) == text.size();
}

// As their tokenizer files have them.
constexpr const char* kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kCl100kPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

class HandSplitter : public testing::TestWithParam<const char*> {};

TEST_P(HandSplitter, AgreesWithTheRegexOnEveryCharacter) {
  const auto hand = make_splitter(GetParam()), regex = make_regex_splitter(GetParam());
  std::string text;
  const auto compare = [&] {
    ASSERT_EQ(pieces(*hand, text), pieces(*regex, text));
    text.clear();
  };
  int compared = 0;
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if ((code >= 0xd800 && code < 0xe000) || !same_for_both(code)) continue;
    for (const char* context : {"a", " ", "1", "'", "\n", "."}) {
      text += context;
      append_utf8(text, code);
    }
    if (++compared % 256 == 0) compare();
  }
  compare();
  EXPECT_GT(compared, 200000);
}

TEST_P(HandSplitter, AgreesWithTheRegexOnRandomText) {
  const auto hand = make_splitter(GetParam()), regex = make_regex_splitter(GetParam());
  const std::vector<std::string> alphabet = {
      "'",      "s",      "S",      "t", "r", "e",  "R", "E", "l",  "L",      "v",
      "m",      "d",      "ſ",      "a", "é", "日", " ", " ", "\n", "\r",     "\t",
      "\u00a0", "\u3000", "\u2028", "1", "2", "½",  "٣", ".", "!",  "\u0301", "🙂"};
  EXPECT_TRUE(rc::check([&] {
    const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(alphabet));
    std::string text;
    for (const auto& part : parts) text += part;
    RC_ASSERT(pieces(*hand, text) == pieces(*regex, text));
  }));
}

INSTANTIATE_TEST_SUITE_P(Patterns, HandSplitter, testing::Values(kGpt2Pattern, kLlama3Pattern),
                         [](const auto& test) { return test.index == 0 ? "gpt2" : "llama3"; });

class SafeCut : public testing::TestWithParam<const char*> {};

TEST_P(SafeCut, ChangesNothing) {
  const auto splitter = make_splitter(GetParam());
  const std::vector<std::string> alphabet = {
      "a",  "7", " ", "\n", "'",      "s",      ".",      "\r", "é",  "\t", "日",
      "。", "½", "٣", "ſ",  "\u3000", "\u0301", "\u00a0", "，", "、", "A",  "/"};
  EXPECT_TRUE(rc::check([&] {
    const auto parts = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(alphabet));
    std::string text;
    for (const auto& part : parts) text += part;
    const auto whole = pieces(*splitter, text);
    // All of them: a text may be longer than what a cut was looked for in.
    for (size_t cut = last_safe_cut(text, 1); cut != std::string::npos;
         cut = last_safe_cut(text.substr(0, cut), 1)) {
      auto both = pieces(*splitter, text.substr(0, cut));
      for (auto& piece : pieces(*splitter, text.substr(cut))) both.push_back(piece);
      RC_ASSERT(both == whole);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Patterns, SafeCut,
                         testing::Values(kGpt2Pattern, kLlama3Pattern, kGpt4oPattern,
                                         kCl100kPattern, kQwen2Pattern));

TEST(Splitter, PublishedExamples) {
  const auto gpt2 = make_splitter(kGpt2Pattern);
  EXPECT_EQ(pieces(*gpt2, "Hello  world's 123!!\n\n x"),
            (std::vector<std::string>{"Hello", " ", " world", "'s", " 123", "!!", "\n\n", " x"}));
  const auto llama3 = make_splitter(kLlama3Pattern);
  EXPECT_EQ(pieces(*llama3, "(foo) 12345!\n\n x"),
            (std::vector<std::string>{"(foo", ")", " ", "123", "45", "!\n\n", " x"}));
}

TEST(Splitter, UnmatchedTextIsAPieceOfItsOwn) {
  const auto splitter = make_regex_splitter("[a-z]+");
  EXPECT_EQ(pieces(*splitter, "12ab34"), (std::vector<std::string>{"12", "ab", "34"}));
  EXPECT_EQ(pieces(*make_regex_splitter("x*"), "aé"), (std::vector<std::string>{"a", "é"}));
  EXPECT_ERROR(make_regex_splitter("(("), ExitCode::bad_data, "((");
  EXPECT_ERROR(make_regex_splitter("\\C"), ExitCode::bad_data, "\\C");
  const auto explosive = make_regex_splitter("(a+)+(a+)+(a+)+[bc]");
  const std::string text(5000, 'a');
  EXPECT_ERROR(explosive->next(text, 0), ExitCode::bad_data, "limit");
}

TEST(Splitter, WhatOtherEnginesReadOtherwiseIsFound) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {R"([\p{L}&&[^\p{Han}]]+|\s)", "&&"},
      {R"( ?[^(\s|[.,!?])]+)", "[."},
      {R"(\w+|\s)", R"(\w)"},
      {R"([\h]+)", R"(\h)"},
      {R"(\s++$|\s)", "$"},
      {R"(^a|b)", "^"},
      {R"(\p{N}{1,3}+|a)", "}+"},
      {R"(a{2}?)", "}?"},
      {R"(a{,3})", "{,"},
      {R"((?i)a|b)", "(?i"},
      {R"([\p{L}\p{Han}]+|a)", R"(\p{Han})"},
      {R"(\P{^Hiragana}+)", R"(\P{^Hiragana})"},
      {R"(\p{Alphabetic}+)", R"(\p{Alphabetic})"},
      {R"(\p{sc:Han}+)", R"(\p{sc:Han})"},
      {R"(\pL+)", R"(\p)"},
      {R"(\p{L)", R"(\p)"},
      {R"(\x41)", R"(\x)"},
      {R"((?i:'ss)|s)", "ss"},
      {R"((?i:a|(?:b|laST))x)", "ST"},
      {R"((?i:ß)|ss)", "ß"},
      {R"((?i:[à-ü])|s)", "à"},
      {R"((?i:\p{L})|s)", R"(\p{L})"},
      {R"((?i:a\x{df})|s)", R"(\x{df})"},
      {R"((?m:.+))", "(?m"}};
  for (const auto& [pattern, part] : kOthers) EXPECT_EQ(read_otherwise(pattern), part) << pattern;
  // Marks are ordinary characters where they stand.
  for (const char* same :
       {kGpt2Pattern, kLlama3Pattern, kGpt4oPattern, kCl100kPattern, kQwen2Pattern,
        R"(\$\^[$^&]|[]^]+|[^]$]|\[&&|(?<=a)(?>b))", R"([\x{4e00}-\x{9fff}]+|\x{3001}+)",
        R"(\p{^Lu}+|\P{L}|\p{L}?)", R"((?i:'s|s(t)|[st]|’s)|ss|ß|\p{L}|(?:st))"}) {
    EXPECT_EQ(read_otherwise(same), "") << same;
  }
}

TEST(Utf8, StrictDecoding) {
  for (const char* bad : {"\x80", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xff"}) {
    EXPECT_EQ(decode_utf8(bad).bytes, 0u) << bad;
  }
  for (uint32_t code = 0; code < 0x120000; ++code) {
    std::string text;
    append_utf8(text, code);
    if ((code >= 0xd800 && code < 0xe000) || code >= 0x110000) {  // surrogates; beyond the last
      ASSERT_EQ(decode_utf8(text).bytes, 0u) << code;
      continue;
    }
    ASSERT_EQ(decode_utf8(text).code, code);
    ASSERT_EQ(decode_utf8(text).bytes, text.size());
    ASSERT_EQ(decode_valid_utf8(text.data()).code, code);
    for (size_t size = 1; size < text.size(); ++size) {
      ASSERT_EQ(incomplete_utf8_suffix(text.substr(0, size)), size) << code;
    }
  }
  EXPECT_EQ(incomplete_utf8_suffix("a\xed\xa0"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\x80\x80"), 0u);
}

}  // namespace
}  // namespace stretto
