// Cuts text into pieces; merges of byte pairs never cross their borders.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace stretto {

// Published patterns. NeoX splits like GPT-2.
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;

// Safe to share between threads.
class Splitter {
 public:
  virtual ~Splitter() = default;
  // End of the piece that begins at `begin` (< text.size()). `text` must be valid UTF-8. The pieces
  // in sequence make up the whole text.
  virtual size_t next(std::string_view text, size_t begin) const = 0;
};

// Hand-written matchers for the two published patterns, PCRE2 for any other.
std::unique_ptr<Splitter> make_splitter(const std::string& pattern);
// PCRE2 (JIT) for any pattern. It is slower; tests compare the hand-written matchers with it.
// Characters that match no alternative form pieces of their own.
std::unique_ptr<Splitter> make_regex_splitter(const std::string& pattern);
// Tokenizer files are written for Oniguruma, and PCRE2 reads some patterns differently. Returns the
// first such place, a few characters of the pattern. Empty: both split every text alike.
std::string_view read_otherwise(std::string_view pattern);
// For tokenizers that do not split: the whole text is one piece.
std::unique_ptr<Splitter> make_no_splitter();

// The last place in [from, text.size()) where a piece ends under the published patterns, whatever
// text comes before or after, in any script: before a space that follows no other space, before a
// newline or one of ，。、 that follows a letter or digit, and after a single newline that follows
// one. npos if there is none. It is the last such place so that blocks of a file are as long as
// possible.
size_t last_safe_cut(std::string_view text, size_t from);

}  // namespace stretto
