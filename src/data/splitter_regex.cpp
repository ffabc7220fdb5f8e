// Splitting by PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/utf8.h"
#include "data/splitter.h"

namespace stretto {
namespace {

// A pattern from an unknown file may backtrack for ever, so the work of one match is limited.
constexpr uint32_t kMatchLimit = 10'000'000;

std::string pcre2_message(int code) {
  char text[256];
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof(text));
  return text;
}

struct Scratch {  // one per thread: PCRE2 match data must not be shared
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, 1024 * 1024, nullptr);

  Scratch() {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
};

class RegexSplitter final : public Splitter {
 public:
  explicit RegexSplitter(const std::string& pattern) : pattern_(pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    // The caller has checked that the text is UTF-8; \C would break characters apart.
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                          &error, &offset, nullptr);
    if (code_ == nullptr) {
      throw Error(
          ExitCode::bad_data,
          fmt::format("split pattern \"{}\": {} at {}", pattern, pcre2_message(error), offset),
          "correct the pattern in the tokenizer file");
    }
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // without JIT it works as well, but slowly
  }
  ~RegexSplitter() override { pcre2_code_free(code_); }
  RegexSplitter(const RegexSplitter&) = delete;
  RegexSplitter& operator=(const RegexSplitter&) = delete;

  size_t next(std::string_view text, size_t begin) const override {
    static thread_local Scratch scratch;
    size_t from = begin;
    while (true) {
      const int found = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                    from, PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
      if (found == PCRE2_ERROR_NOMATCH) return text.size();
      if (found < 0) {
        throw Error(ExitCode::bad_data,
                    fmt::format("split pattern \"{}\": {}", pattern_, pcre2_message(found)),
                    "use a pattern that needs less backtracking");
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch.data);
      // The unmatched text before the match is a piece of its own.
      if (range[0] > begin) return range[0];
      if (range[1] > begin) return range[1];
      // An empty match: try again after the next character.
      from += decode_valid_utf8(text.data() + from).bytes;
      if (from >= text.size()) return text.size();
    }
  }

 private:
  std::string pattern_;
  pcre2_code* code_ = nullptr;
};

// Whether a group that begins like this ("(" is at the beginning of `rest`) means the same to both
// engines.
bool known_group(std::string_view rest) {
  if (!rest.starts_with("(?")) return true;
  for (const char* same : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
    if (rest.starts_with(same)) return true;
  }
  return false;
}

bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// An escape: a backslash, what follows it, and the braces of a name or number.
std::string_view escape_at(std::string_view rest) {
  const size_t end = rest.substr(0, 3).ends_with('{') ? rest.find('}') : std::string_view::npos;
  const bool braced = rest.size() > 2 && is_alphanumeric(rest[1]);
  return rest.substr(0, braced && end != std::string_view::npos ? end + 1 : 2);
}

// Whether both engines give an escape the same meaning. \w, \b, \h and \v differ. So do names of
// scripts: \p{Han} means Script_Extensions to PCRE2, Script to Oniguruma. \s and \S differ only in
// U+180E, which PCRE2 still counts as a space.
bool same_escape(std::string_view escape, bool ignores_case) {
  const char kind = escape.size() > 1 ? escape[1] : '\0';
  if (escape.size() < 4) {
    constexpr std::string_view kSame = "sSdDrntf";
    return !is_alphanumeric(kind) || kSame.find(kind) != std::string_view::npos;
  }
  if (ignores_case) return false;
  if (kind == 'x') return true;
  const size_t letters = escape.size() - 4 - (escape[3] == '^' ? 1 : 0);
  return (kind == 'p' || kind == 'P') && letters <= 2;  // general categories
}

// If case is ignored, Oniguruma may take several characters for the same as a single one, such as
// "ss" for ß; PCRE2 never does. Returns the length of such a sequence at the beginning of `rest`,
// or 0.
size_t several_as_one(std::string_view rest, bool in_class) {
  const auto lead = static_cast<unsigned char>(rest[0]);
  if (lead >= 0x80) {
    const CodePoint point = decode_utf8(rest.substr(0, 4));
    const bool punctuation = point.code >= 0x2010 && point.code < 0x2028;  // as in ’s
    return (lead & 0xc0) == 0x80 || punctuation ? 0 : std::max<size_t>(point.bytes, 1);
  }
  if (in_class || rest.size() < 2) return 0;
  for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
    if ((rest[0] | 0x20) == pair[0] && (rest[1] | 0x20) == pair[1]) return 2;
  }
  return 0;
}

}  // namespace

std::string_view read_otherwise(std::string_view pattern) {
  bool in_class = false;
  // Nesting of groups, and the depth of the one that ignores case, if any.
  int depth = 0, ignoring = 0;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const std::string_view rest = pattern.substr(at);
    const char c = rest[0], next = rest.size() > 1 ? rest[1] : '\0';
    if (c == '\\') {
      const std::string_view escape = escape_at(rest);
      if (!same_escape(escape, ignoring > 0)) return escape;
      at += escape.size() - 1;
    } else if (const size_t length = ignoring > 0 ? several_as_one(rest, in_class) : 0) {
      return rest.substr(0, length);
    } else if (in_class) {  // a class may contain other classes, and intersections, in Oniguruma
      if (c == '[' || rest.starts_with("&&")) return rest.substr(0, 2);
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      if (next == '^') ++at;
      // As the first character it is an ordinary one.
      if (pattern.substr(at + 1).starts_with(']')) ++at;
    } else if (c == '^' || c == '$') {  // they match at every line in Oniguruma
      return rest.substr(0, 1);
    } else if (c == '(') {
      if (!known_group(rest)) return rest.substr(0, 3);
      ++depth;
      if (ignoring == 0 && rest.starts_with("(?i:")) ignoring = depth;
    } else if (c == ')') {
      if (ignoring == depth) ignoring = 0;
      --depth;
    } else if (rest.starts_with("{,") || rest.starts_with("}+") || rest.starts_with("}?")) {
      return rest.substr(0, 2);
    }
  }
  return {};
}

std::unique_ptr<Splitter> make_regex_splitter(const std::string& pattern) {
  return std::make_unique<RegexSplitter>(pattern);
}

}  // namespace stretto
