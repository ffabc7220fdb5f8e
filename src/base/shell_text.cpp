#include "base/shell_text.h"

#include <algorithm>

namespace stretto {
namespace {

// Whether it consists of letters, digits and `extra`.
bool holds_only(std::string_view text, std::string_view extra) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter || extra.find(c) != std::string_view::npos;
  });
}

}  // namespace

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string shell_word(std::string_view text) {
  return !text.empty() && holds_only(text, "_./=:,@%+-") ? std::string(text) : shell_quoted(text);
}

bool is_safe_name(std::string_view text) {
  if (text.empty() || text.size() > 128 || text[0] == '.' || text[0] == '-') return false;
  return text.find("..") == std::string_view::npos && holds_only(text, "._-");
}

}  // namespace stretto
