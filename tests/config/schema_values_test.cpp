// The JSON Schema takes what the reader takes: every value that a configuration has when it is
// written as JSON, and every list.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "config/registry.h"
#include "config/serialize.h"
#include "config/support.h"

namespace stretto::test {
namespace {

using nlohmann::json;

bool is_of_type(const json& value, const std::string& type) {
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.is_string()
         : type == "boolean" ? value.is_boolean()
         : type == "integer" ? value.is_number_integer()
         : type == "number"  ? value.is_number()
                             : type == "null" && value.is_null();
}

// The words of JSON Schema that config_schema() uses. Empty: valid; else the path of what is not.
std::string refused(const json& schema, const json& value, const std::string& path = "$") {
  if (const auto type = schema.find("type"); type != schema.end()) {
    const json types = type->is_array() ? *type : json::array({*type});
    const bool any = std::any_of(types.begin(), types.end(),
                                 [&](const json& one) { return is_of_type(value, one); });
    if (!any) return path;
  }
  if (schema.contains("const") && value != schema["const"]) return path;
  if (schema.contains("enum")) {
    const json& words = schema["enum"];
    if (std::find(words.begin(), words.end(), value) == words.end()) return path;
  }
  if (value.is_number()) {
    if (value < schema.value("minimum", value) || value > schema.value("maximum", value)) {
      return path;
    }
  }
  if (value.is_string() && schema.contains("pattern") &&
      !std::regex_search(value.get<std::string>(),
                         std::regex(schema["pattern"].get<std::string>()))) {
    return path;
  }
  if (schema.contains("anyOf")) {
    const json& ways = schema["anyOf"];
    const bool any = std::any_of(ways.begin(), ways.end(), [&](const json& way) {
      return refused(way, value, path + "!").empty();
    });
    if (!any) return path;
  }
  if (value.is_array() && schema.contains("items")) {
    for (const json& item : value) {
      if (const std::string bad = refused(schema["items"], item, path + "[]"); !bad.empty()) {
        return bad;
      }
    }
  }
  if (!value.is_object() || !schema.contains("properties")) return "";
  for (const auto& [name, inner] : value.items()) {
    const std::string at = path + "/" + name;
    if (!schema["properties"].contains(name)) return at;
    if (const std::string bad = refused(schema["properties"][name], inner, at); !bad.empty()) {
      return bad;
    }
  }
  return "";
}

TEST(SchemaValues, EveryModelOfTheRegistryIsValid) {
  const json schema = config_schema();
  for (const RegistryModel& known : registry_models()) {
    EXPECT_EQ(refused(schema, to_json(load_config({known.shape.name}).config)), "")
        << known.shape.name;
  }
}

// Whatever is given, the JSON of records and the schema of editors agree about its form.
TEST(SchemaValues, OverridesOfEveryKindAreValid) {
  const json schema = config_schema();
  for (const char* word :
       {"micro_batch=auto", "parallel.zero=FULL_SHARD", "train.lr=6e-4", "memory_limit=40GiB",
        "train.watchdog=30min", "data.path=text.txt", "checkpoint.async=true", "tf32=false",
        "parallel.partition=[1,3]", "parallel.partition=[2, 1, 1]", "parallel.partition=[]"}) {
    const json document = to_json(load_config({"tiny", word}).config);
    EXPECT_EQ(refused(schema, document), "") << word;
  }
}

TEST(SchemaValues, AListIsWrittenAsOneOrAsAText) {
  const json list = config_schema()["properties"]["parallel"]["properties"]["partition"];
  for (const json& value : {json({1, 3}), json("[1, 3]"), json::array()}) {
    EXPECT_EQ(refused(list, value), "") << value;
    EXPECT_NO_THROW(config_from_json({{"model", "tiny"}, {"parallel", {{"partition", value}}}}))
        << value;
  }
  for (const json& value : {json({1, "three"}), json({-1}), json(true), json::object()}) {
    EXPECT_EQ(refused(list, value), "$") << value;
  }
}

}  // namespace
}  // namespace stretto::test
