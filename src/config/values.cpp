// Values of configuration keys: from text, and back.
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "config/schema.h"
#include "config/suggest.h"

namespace stretto {
namespace {

[[noreturn]] void wrong(const std::string& text, const std::string& what, const std::string& fix) {
  throw Error(ExitCode::bad_config,
              fmt::format("'{}' is not {}", printable(text.substr(0, 60)), what), fix);
}

bool parse_flag(const std::string& text) {
  const std::string word = lower(text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  wrong(text, "true or false", "write true or false");
}

double parse_real(const std::string& text) {
  double value = 0;
  const auto [stop, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || stop != text.data() + text.size() || !std::isfinite(value)) {
    wrong(text, "a number", "write it as 0.1 or 6e-4");
  }
  return value;
}

// The names of ZeRO stages in other frameworks.
std::string zero_alias(const std::string& text) {
  constexpr std::array<std::pair<const char*, const char*>, 8> kNames = {{{"no_shard", "0"},
                                                                          {"zero-0", "0"},
                                                                          {"zero-1", "1"},
                                                                          {"zero-2", "2"},
                                                                          {"shard_grad_op", "2"},
                                                                          {"zero-3", "3"},
                                                                          {"full_shard", "3"},
                                                                          {"ddp", "0"}}};
  for (const auto& [name, stage] : kNames) {
    if (lower(text) == name) return stage;
  }
  return text;
}

std::string parse_word(const Key& key, const std::string& text) {
  const bool zero = key.name == "parallel.zero";
  const std::string wanted = zero ? zero_alias(text) : lower(text);
  for (const std::string& word : key.words) {
    if (word == wanted) return word;
  }
  std::string known = "use " + join_or(key.words);
  if (zero) known += " (NO_SHARD, ZeRO-1, SHARD_GRAD_OP, FULL_SHARD)";
  const std::vector<std::string> near = nearest_words(text, key.words, 1);
  if (!near.empty()) known = fmt::format("did you mean '{}'? {}", near[0], known);
  wrong(text, fmt::format("a known {}", key.name), known);
}

// [3, 4, 5] becomes "[3,4,5]"; the partition rule looks at the numbers.
std::string parse_list(const YamlNode& node) {
  std::string text = "[";
  for (const YamlNode& item : node.items) {
    if (!item.is_scalar()) wrong("...", "a list of whole numbers", "write it as [3, 4, 5]");
    text += fmt::format("{}{}", text.size() > 1 ? "," : "", parse_count(item.text));
  }
  return text + "]";
}

const char* wanted_form(const Key& key) {
  switch (key.type) {
    case ValueType::flag:
      return "true or false";
    case ValueType::count:
      return "a whole number";
    case ValueType::bytes:
      return "a size such as 80GiB";
    case ValueType::real:
      return "a number";
    case ValueType::seconds:
      return "a duration such as 30min";
    case ValueType::word:
      return "a word";
    case ValueType::text:
      return "a text";
  }
  return "a value";
}

}  // namespace

Value parse_value(const Key& key, const YamlNode& node) {
  if (key.special == "list" && node.is_sequence()) return parse_list(node);
  const bool empty_text = key.type == ValueType::text && node.kind == YamlNode::Kind::null;
  if (empty_text) return std::string();
  if (!node.is_scalar()) {
    const char* got = node.is_mapping() ? "a mapping" : node.is_sequence() ? "a list" : "nothing";
    throw Error(ExitCode::bad_config, fmt::format("takes {}, not {}", wanted_form(key), got),
                fmt::format("write {}: VALUE", key.name));
  }
  const std::string& text = node.text;
  if (!key.special.empty() && key.special == text && key.type == ValueType::count) return kAuto;
  switch (key.type) {
    case ValueType::flag:
      return parse_flag(text);
    case ValueType::count: {
      const int64_t count = parse_count(text);
      // "auto" is represented by this number; as a number it is a mistake.
      if (key.special == "auto" && count == kAuto)
        wrong(text, "a size", fmt::format("write {} or more, or auto", key.least));
      return count;
    }
    case ValueType::bytes:
      return parse_bytes(text);
    case ValueType::real:
      return parse_real(text);
    case ValueType::seconds:
      return parse_seconds(text);
    case ValueType::word:
      return parse_word(key, text);
    case ValueType::text:
      break;
  }
  require_text(text, key.name);
  if (text.find_first_of("\n\r\t") != std::string::npos) wrong(text, "one line", "use one line");
  return text;
}

std::string render_value(const Key& key, const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const double* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const int64_t* count = std::get_if<int64_t>(&value)) {
    if (key.special == "auto" && *count == kAuto) return "auto";
    return fmt::format("{}", *count);
  }
  return std::get<std::string>(value);
}

std::string render_key(const std::string& name, const Config& config) {
  const Key* key = find_key(name);
  STRETTO_CHECK(key != nullptr, "no key {}", name);
  return render_value(*key, key->get(config));
}

}  // namespace stretto
