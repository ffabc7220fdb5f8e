#include "cli/key_text.h"

#include <fmt/format.h>

#include "config/suggest.h"

namespace stretto::cli {

std::string values_of(const Key& key) {
  if (key.type == ValueType::flag) return "true or false";
  if (!key.words.empty()) return join_or(key.words);
  const bool number = key.type != ValueType::text;
  if (number && !key.special.empty()) return fmt::format("{} or {}", key.unit, key.special);
  if (key.type == ValueType::bytes) return "bytes, such as 80GiB";
  if (key.type == ValueType::seconds) return "seconds, or such as 30min";
  return number ? (key.unit.empty() ? "a number" : key.unit) : "text";
}

std::string default_of(const Key& key) {
  return key.name.starts_with("model.") ? "" : render_key(key.name, Config());
}

}  // namespace stretto::cli
