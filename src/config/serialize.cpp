#include "config/serialize.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/schema.h"

namespace stretto {
namespace {

using nlohmann::json;

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= path.size();) {
    const size_t dot = std::min(path.find('.', start), path.size());
    parts.push_back(path.substr(start, dot - start));
    start = dot + 1;
  }
  return parts;
}

// Unquoted if YAML cannot misread it, else in double quotes. JSON's escapes are valid YAML.
std::string yaml_text(std::string text) {
  for (size_t at = 0; (at = text.find("${", at)) != std::string::npos; at += 3) {
    text.insert(at, "\\");  // so that it is no interpolation
  }
  bool plain = !text.empty() && text != "null" && text != "Null" && text != "NULL";
  for (const char c : text) {
    plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                      std::string_view("_./+-").find(c) != std::string_view::npos);
  }
  if (plain && text[0] != '-' && text[0] != '.') return text;
  return json(text).dump();
}

std::string yaml_value(const Key& key, const Value& value) {
  const std::string text = render_value(key, value);
  if (key.special == "list" && !Partition(text).listed.empty()) return text;
  return key.type == ValueType::text ? yaml_text(text) : text;
}

bool any_key(const Key&) { return true; }
bool is_of_model(const Key& key) { return key.name.starts_with("model.") || key.name == "seq_len"; }

std::string write_yaml(const Config& config, const ResolvedConfig* resolved,
                       bool (*wanted)(const Key&) = any_key) {
  std::string out;
  std::vector<std::string> open;  // mappings the last line was in
  for (const Key& key : config_keys()) {
    if (!wanted(key)) continue;
    std::vector<std::string> path = split(key.name);
    const std::string leaf = path.back();
    path.pop_back();
    size_t common = 0;
    while (common < path.size() && common < open.size() && path[common] == open[common]) ++common;
    for (size_t i = common; i < path.size(); ++i) {
      out += fmt::format("{:{}}{}:\n", "", 2 * i, path[i]);
    }
    std::string line =
        fmt::format("{:{}}{}: {}", "", 2 * path.size(), leaf, yaml_value(key, key.get(config)));
    if (resolved) line = fmt::format("{:<40} # {}", line, resolved->origin_of(key.name).text());
    out += line + "\n";
    open = path;
  }
  return out;
}

json value_json(const Key& key, const Value& value) {
  if (key.name == "parallel.zero") {  // written as a number, if the Config was filled by the reader
    const std::string& stage = std::get<std::string>(value);
    return stage.size() == 1 ? json(stage[0] - '0') : json(stage);
  }
  if (key.special == "auto" && std::get<int64_t>(value) == kAuto) return "auto";
  if (key.special == "list") {
    const std::vector<int64_t> list = Partition(std::get<std::string>(value)).listed;
    if (!list.empty()) return list;
  }
  return std::visit([](const auto& v) { return json(v); }, value);
}

void set_path(json& root, const std::string& name, json value) {
  json* at = &root;
  for (const std::string& part : split(name)) at = &(*at)[part];
  *at = std::move(value);
}

YamlNode node_from_json(const json& value, int depth) {
  const Place place{Source::file, "JSON", 0, 0};
  if (depth > kMaxYamlDepth) {
    throw Error(ExitCode::bad_config, "JSON configuration nested too deep", "nest less");
  }
  YamlNode node;
  node.place = place;
  if (value.is_object()) {
    node.kind = YamlNode::Kind::mapping;
    for (const auto& [name, item] : value.items()) node.set(name, node_from_json(item, depth + 1));
  } else if (value.is_array()) {
    node.kind = YamlNode::Kind::sequence;
    for (const json& item : value) node.items.push_back(node_from_json(item, depth + 1));
  } else if (value.is_string()) {
    std::string text = value.get<std::string>();
    for (size_t at = 0; (at = text.find("${", at)) != std::string::npos; at += 3) {
      text.insert(at, "\\");  // a record's values are final: no interpolation
    }
    node = yaml_scalar(std::move(text), place);
  } else if (value.is_number_float()) {
    node = yaml_scalar(fmt::format("{}", value.get<double>()), place);
  } else if (!value.is_null()) {
    node = yaml_scalar(value.dump(), place);
  }
  return node;
}

json number_schema(const Key& key, const char* json_type, const char* pattern) {
  json number = {{"type", json_type}, {"minimum", key.least}, {"maximum", key.most}};
  // A text with a unit, or a reference to another key, may stand in place of a number.
  json text = {{"type", "string"}, {"pattern", pattern}};
  if (key.special == "auto") return {{"anyOf", {number, text, {{"const", "auto"}}}}};
  return {{"anyOf", {number, text}}};
}

json key_schema(const Key& key) {
  constexpr const char* kReference = R"(\$\{[^}]+\})";
  const std::string count = fmt::format("^[0-9.eE+]+[kKMGBT]?$|{}", kReference);
  const std::string bytes = fmt::format("^[0-9.eE+]+([kMGT]?B|[KMGT]iB)?$|{}", kReference);
  // Many editors read YAML 1.1, in which 6e-4 is a text.
  const std::string real = fmt::format("^-?[0-9.]+([eE][+-]?[0-9]+)?$|{}", kReference);
  const std::string seconds = fmt::format("^[0-9.eE+-]+(ms|s|min|h|d)?$|{}", kReference);
  json schema;
  switch (key.type) {
    case ValueType::flag:
      schema = {{"type", "boolean"}};
      break;
    case ValueType::count:
      schema = number_schema(key, "integer", count.c_str());
      break;
    case ValueType::bytes:
      schema = number_schema(key, "integer", bytes.c_str());
      break;
    case ValueType::real:
      schema = number_schema(key, "number", real.c_str());
      break;
    case ValueType::seconds:
      schema = number_schema(key, "number", seconds.c_str());
      break;
    case ValueType::word:
      schema = {{"enum", key.words}};
      break;
    case ValueType::text:
      schema = {{"type", json::array({"string", "null"})}};
      break;
  }
  if (key.name == "parallel.zero") {
    schema = {
        {"enum",
         {0, 1, 2, 3, "NO_SHARD", "ZeRO-1", "ZeRO-2", "SHARD_GRAD_OP", "ZeRO-3", "FULL_SHARD"}}};
  }
  if (key.special == "list") {
    const json list = {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}};
    schema = {{"anyOf", {{{"type", "string"}}, list}}};
  }
  schema["description"] = key.unit.empty() ? key.doc : fmt::format("{} ({})", key.doc, key.unit);
  const bool has_default = key.name.rfind("model.", 0) != 0 && key.name != "seq_len";
  if (has_default) schema["default"] = value_json(key, key.get(Config{}));
  return schema;
}

}  // namespace

std::string to_yaml(const Config& config) { return write_yaml(config, nullptr); }
std::string to_yaml(const ResolvedConfig& resolved) {
  return write_yaml(resolved.config, &resolved);
}

std::string model_yaml(const Config& config) { return write_yaml(config, nullptr, is_of_model); }

json to_json(const Config& config) {
  json document = json::object();
  for (const Key& key : config_keys()) {
    set_path(document, key.name, value_json(key, key.get(config)));
  }
  return document;
}

Config config_from_json(const json& document) {
  return resolve_config(node_from_json(document, 0)).config;
}

json origins_json(const ResolvedConfig& resolved) {
  json origins = json::object();
  for (const Origin& origin : resolved.origins) origins[origin.key] = origin.place.text();
  return origins;
}

json config_schema() {
  const json object = {{"type", "object"}, {"additionalProperties", false}};
  json schema = object;
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "Stretto configuration";
  for (const Key& key : config_keys()) {
    json* at = &schema;
    const std::vector<std::string> path = split(key.name);
    for (size_t i = 0; i < path.size(); ++i) {
      json& child = (*at)["properties"][path[i]];
      if (i + 1 == path.size()) {
        child = key_schema(key);
      } else if (child.is_null()) {
        child = object;
      }
      at = &child;
    }
  }
  json& properties = schema["properties"];
  json model = properties["model"];
  properties["model"] = {{"description", "a name that `stretto models` lists, or a mapping"},
                         {"anyOf", {{{"type", "string"}}, model}}};
  properties["variables"] = {{"description", "free values for ${variables.NAME}"},
                             {"type", "object"}};
  return schema;
}

}  // namespace stretto
