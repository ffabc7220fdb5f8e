// The table of all configuration keys. The reader, `config show`, the JSON Schema, YAML and JSON
// output and the range rule all use it; a new key is one more row.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"
#include "config/yaml.h"

namespace stretto {

using Value = std::variant<bool, int64_t, double, std::string>;

enum class ValueType {
  flag,     // bool
  count,    // int64_t; 2M
  bytes,    // int64_t; 80GiB
  real,     // double
  seconds,  // double; 30min
  word,     // std::string, one of `words`
  text,     // std::string
};

struct Key {
  std::string name;  // dotted
  ValueType type = ValueType::text;
  std::string unit;
  double least = 0;  // range of numbers, checked by the range rule
  double most = 0;
  std::vector<std::string> words;
  std::string special;  // a word also accepted for a number ("auto"); "list" for a text
  std::string doc;
  std::function<Value(const Config&)> get;
  std::function<void(Config&, const Value&)> set;
};

// Rows in the order in which configurations are printed; keys of one mapping are adjacent.
const std::vector<Key>& config_keys();
const Key* find_key(std::string_view name);  // null when unknown

// Converts a text or list to the value. Throws Error (bad_config) that says what the key takes,
// without a place.
Value parse_value(const Key& key, const YamlNode& node);

// The value in the spelling of configurations, which parse_value reads back unchanged.
std::string render_value(const Key& key, const Value& value);
std::string render_key(const std::string& name, const Config& config);  // by name

}  // namespace stretto
