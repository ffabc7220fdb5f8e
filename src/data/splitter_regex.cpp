// Splitting by PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "base/error.h"
#include "base/utf8.h"
#include "data/splitter.h"

namespace stretto {
namespace {

// A pattern from a stranger's file may backtrack for ever: bound the work of one match.
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
    // UTF input is checked before it comes here; \C would break it apart.
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                          &error, &offset, nullptr);
    if (code_ == nullptr) {
      throw Error(
          ExitCode::bad_data,
          fmt::format("split pattern \"{}\": {} at {}", pattern, pcre2_message(error), offset),
          "correct the pattern in the tokenizer file");
    }
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // without JIT it still works, slowly
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
      if (range[0] > begin) return range[0];  // unmatched text before it is a piece of its own
      if (range[1] > begin) return range[1];
      // An empty match: try again behind the next character.
      from += decode_valid_utf8(text.data() + from).bytes;
      if (from >= text.size()) return text.size();
    }
  }

 private:
  std::string pattern_;
  pcre2_code* code_ = nullptr;
};

// Whether a group that begins so ("(" is where `rest` begins) means the same to both.
bool known_group(std::string_view rest) {
  if (!rest.starts_with("(?")) return true;
  for (const char* same : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
    if (rest.starts_with(same)) return true;
  }
  return false;
}

}  // namespace

std::string_view read_otherwise(std::string_view pattern) {
  constexpr std::string_view kSameEscapes = "sSdDpPrntf";  // \w, \b, \h and \v are not
  bool in_class = false;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const std::string_view rest = pattern.substr(at);
    const char c = rest[0], next = rest.size() > 1 ? rest[1] : '\0';
    if (c == '\\') {
      const bool named = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') ||
                         (next >= '0' && next <= '9');
      if (named && kSameEscapes.find(next) == std::string_view::npos) return rest.substr(0, 2);
      const size_t name = next == 'p' || next == 'P' ? rest.find('}') : std::string_view::npos;
      at += name == std::string_view::npos ? 1 : name;
    } else if (in_class) {  // which may hold others there, and be cut with them
      if (c == '[' || rest.starts_with("&&")) return rest.substr(0, 2);
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      if (next == '^') ++at;
      if (pattern.substr(at + 1).starts_with(']')) ++at;  // the first is an ordinary character
    } else if (c == '^' || c == '$') {                    // of every line there
      return rest.substr(0, 1);
    } else if (c == '(' && !known_group(rest)) {
      return rest.substr(0, 3);
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
