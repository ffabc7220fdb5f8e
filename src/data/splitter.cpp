#include "data/splitter.h"

#include "base/utf8.h"
#include "data/unicode.h"

namespace stretto {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

// Walks valid UTF-8 by character class. Positions are bytes.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), classes_(char_classes()) {}

  size_t size() const { return text_.size(); }
  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  // Class of the character at `at` (inside the text) and where the next one begins.
  CharClass class_at(size_t at, size_t& after) const {
    const auto lead = static_cast<unsigned char>(text_[at]);
    if (lead < 0x80) {
      after = at + 1;
      return classes_[lead];
    }
    const CodePoint point = decode_valid_utf8(text_.data() + at);
    after = at + point.bytes;
    return classes_[point.code];
  }

  bool is(size_t at, CharClass wanted) const {
    size_t after;
    return at < size() && class_at(at, after) == wanted;
  }

  size_t end_of_run(size_t at, CharClass wanted) const {
    size_t after = at;
    while (at < size() && class_at(at, after) == wanted) at = after;
    return at;
  }

 private:
  std::string_view text_;
  const CharClass* classes_;
};

bool is_newline(char c) { return c == '\n' || c == '\r'; }

// Length of 's, 't, 'm, 'd, 're, 've or 'll at `at`, or 0. Ignoring case follows Unicode, where
// the long s (U+017F) is an s.
size_t contraction(const Scanner& scan, size_t at, bool ignore_case) {
  if (scan.byte(at) != '\'') return 0;
  const auto lower = [&](size_t i) {
    const char c = scan.byte(i);
    return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char a = lower(at + 1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  const char b = lower(at + 2);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  if (ignore_case && scan.byte(at + 1) == '\xc5' && scan.byte(at + 2) == '\xbf') return 3;
  return 0;
}

// \s+(?!\S)|\s+ : a run of spaces leaves its last character to the piece after it.
size_t spaces(const Scanner& scan, size_t begin) {
  size_t at = begin, last = begin, after = begin;
  while (at < scan.size() && scan.class_at(at, after) == CharClass::space) {
    last = at;
    at = after;
  }
  return at == scan.size() || last == begin ? at : last;
}

class Gpt2Splitter final : public Splitter {
 public:
  size_t next(std::string_view text, size_t begin) const override {
    const Scanner scan(text);
    if (const size_t length = contraction(scan, begin, false)) return begin + length;
    size_t at = begin, after;
    CharClass kind = scan.class_at(at, after);
    if (kind == CharClass::space) {
      if (text[begin] != ' ' || after == text.size()) return spaces(scan, begin);
      at = after;
      kind = scan.class_at(at, after);
      if (kind == CharClass::space) return spaces(scan, begin);
    }
    return scan.end_of_run(after, kind);
  }
};

class Llama3Splitter final : public Splitter {
 public:
  size_t next(std::string_view text, size_t begin) const override {
    const Scanner scan(text);
    if (const size_t length = contraction(scan, begin, true)) return begin + length;
    size_t after;
    const CharClass kind = scan.class_at(begin, after);
    if (kind == CharClass::letter) return scan.end_of_run(after, CharClass::letter);
    if (kind == CharClass::number) return up_to_three_numbers(scan, after);
    if (!is_newline(text[begin]) && scan.is(after, CharClass::letter)) {
      return scan.end_of_run(after, CharClass::letter);
    }
    if (kind == CharClass::other) return punctuation(scan, after);
    if (text[begin] == ' ' && scan.is(after, CharClass::other)) return punctuation(scan, after);
    if (const size_t end = last_newline(scan, begin)) return end;
    return spaces(scan, begin);
  }

 private:
  static size_t up_to_three_numbers(const Scanner& scan, size_t at) {
    size_t after;
    for (int i = 1; i < 3 && at < scan.size(); ++i) {
      if (scan.class_at(at, after) != CharClass::number) break;
      at = after;
    }
    return at;
  }

  static size_t punctuation(const Scanner& scan, size_t at) {
    at = scan.end_of_run(at, CharClass::other);
    while (is_newline(scan.byte(at)) && at < scan.size()) ++at;
    return at;
  }

  // \s*[\r\n]+ : the position after the last newline in the run of spaces, or 0.
  static size_t last_newline(const Scanner& scan, size_t at) {
    size_t found = 0, after;
    while (at < scan.size() && scan.class_at(at, after) == CharClass::space) {
      if (is_newline(scan.byte(at))) found = after;
      at = after;
    }
    return found;
  }
};

class NoSplitter final : public Splitter {
 public:
  size_t next(std::string_view text, size_t) const override { return text.size(); }
};

// Class of the character that ends just before `at` (> 0). Bytes that are not UTF-8 never join the
// text around them.
CharClass class_before(std::string_view text, size_t at) {
  size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (text[begin] & 0xc0) == 0x80) --begin;
  const CodePoint point = decode_utf8(text.substr(begin, at - begin));
  return point.bytes == at - begin ? char_classes()[point.code] : CharClass::other;
}

bool is_word(CharClass kind) { return kind == CharClass::letter || kind == CharClass::number; }

bool is_wide_stop(std::string_view rest) {
  return rest.starts_with("，") || rest.starts_with("。") || rest.starts_with("、");
}

bool is_safe_cut(std::string_view text, size_t at) {
  const CharClass before = class_before(text, at);
  if (text[at] == ' ') return before != CharClass::space;
  if (is_newline(text[at]) || is_wide_stop(text.substr(at))) return is_word(before);
  if (text[at - 1] != '\n' || at < 2) return false;
  const CodePoint next = decode_utf8(text.substr(at, 4));
  return next.bytes > 0 && is_word(char_classes()[next.code]) &&
         class_before(text, at - 1) != CharClass::space;
}

}  // namespace

std::unique_ptr<Splitter> make_splitter(const std::string& pattern) {
  if (pattern == kGpt2Pattern) return std::make_unique<Gpt2Splitter>();
  if (pattern == kLlama3Pattern) return std::make_unique<Llama3Splitter>();
  return make_regex_splitter(pattern);
}

std::unique_ptr<Splitter> make_no_splitter() { return std::make_unique<NoSplitter>(); }

size_t last_safe_cut(std::string_view text, size_t from) {
  for (size_t at = text.size(); at-- > from && at > 0;) {
    if (is_safe_cut(text, at)) return at;
  }
  return std::string_view::npos;
}

}  // namespace stretto
