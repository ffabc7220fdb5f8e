// Cuts text into the pieces that byte-pair merges never cross.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace stretto {

// The published patterns. NeoX splits like GPT-2.
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;

// Safe to share between threads.
class Splitter {
 public:
  virtual ~Splitter() = default;
  // End of the piece that begins at `begin` (< text.size()). `text` is valid UTF-8; the pieces one
  // after the other are the whole text.
  virtual size_t next(std::string_view text, size_t begin) const = 0;
};

// Hand-written matchers for the two published patterns, PCRE2 for any other.
std::unique_ptr<Splitter> make_splitter(const std::string& pattern);
// PCRE2 (JIT) for any pattern: slower, and the reference the matchers are tested against.
// Characters no alternative matches form pieces of their own.
std::unique_ptr<Splitter> make_regex_splitter(const std::string& pattern);
// What of a pattern PCRE2 would read otherwise than Oniguruma, for which tokenizer files are
// written: the first such place, a few characters of it. Empty: both split every text alike.
std::string_view read_otherwise(std::string_view pattern);
// The whole text is one piece.
std::unique_ptr<Splitter> make_no_splitter();

// A place in [from, text.size()) where, under the published patterns, a piece ends whatever
// stands before or after, in any script: in front of a space that follows no other one, in front
// of a newline or one of ，。、 that follows a letter or digit, and behind a lone newline that one
// follows. npos when none. The last such place, so that blocks of a file are as long as they can
// be.
size_t last_safe_cut(std::string_view text, size_t from);

}  // namespace stretto
