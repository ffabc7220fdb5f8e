// Config to YAML and JSON and back, and the JSON Schema.
#include "config/serialize.h"

#include <rapidcheck.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "config/registry.h"
#include "config/rules.h"
#include "config/schema.h"
#include "config/support.h"

namespace stretto {
namespace {

using nlohmann::json;
using test::error_of;

void expect_same(const Config& a, const Config& b) {
  for (const Key& key : config_keys()) EXPECT_EQ(key.get(a), key.get(b)) << key.name;
}

// A value other than the default for every key, so that a lost key shows.
Config unusual() {
  Config c;
  c.model = find_model("tiny");
  for (const Key& key : config_keys()) {
    const Value old = key.get(c);
    if (const bool* flag = std::get_if<bool>(&old)) key.set(c, !*flag);
    if (const int64_t* count = std::get_if<int64_t>(&old)) key.set(c, *count + 3);
    if (const double* real = std::get_if<double>(&old)) key.set(c, *real / 3 + 1e-9);
    if (key.type == ValueType::word) key.set(c, key.words.back());
    if (key.type == ValueType::text) key.set(c, std::string("a: \"b\" # ${c} \u00e9"));
  }
  return c;
}

TEST(Serialize, YamlComesBackUnchanged) {
  expect_same(load_config_text(to_yaml(unusual()), "x").config, unusual());
  for (const RegistryModel& model : registry_models()) {
    const ModelShape& shape = model.shape;
    Config c;
    c.model = shape;
    c.seq_len = shape.positions;
    expect_same(load_config_text(to_yaml(c), "x").config, c);
  }
}

// Texts that YAML would take for something else, or for nothing.
TEST(Serialize, OddTextsComeBackUnchanged) {
  for (const char* text :
       {"",     "null", "Null",   "NULL",   "~",      "true",   "no",         "on",
        "5",    "1e3",  "0x10",   ".inf",   ".nan",   "-",      "- a",        "a: b",
        "a #b", "#a",   "'a'",    "\"a\"",  "[a]",    "{a: b}", "*a",         "&a",
        "!a",   "%a",   "@a",     "`a`",    "|",      ">",      "?",          " a ",
        "a ",   "a,b",  "${a}",   "$",      "\\${a}", "a\\b",   "2024-01-01", "=",
        "<<",   "1:30", "\u00e9", "\u2028", "...",    "---"}) {
    Config c;
    c.model = find_model("tiny");
    c.seq_len = 128;
    c.data.path = text;
    EXPECT_EQ(load_config_text(to_yaml(c), "x").config.data.path, text);
    EXPECT_EQ(config_from_json(json::parse(to_json(c).dump())).data.path, text);
    if (std::string_view(text).find("${") != std::string_view::npos) continue;  // meant so there
    EXPECT_EQ(load_config({"tiny", override_word("data.path", text)}).config.data.path, text);
  }
}

TEST(Serialize, JsonComesBackUnchanged) {
  expect_same(config_from_json(to_json(unusual())), unusual());
  const json text = json::parse(to_json(unusual()).dump());
  expect_same(config_from_json(text), unusual());
}

TEST(Serialize, JsonHasNaturalTypes) {
  Config c = load_config({"tiny", "micro_batch=auto", "parallel.partition=[1, 3]", "parallel.pp=2",
                          "parallel.zero=ZeRO-1"})
                 .config;
  const json document = to_json(c);
  EXPECT_EQ(document["micro_batch"], "auto");
  EXPECT_EQ(document["parallel"]["partition"], json({1, 3}));
  EXPECT_EQ(document["parallel"]["zero"], 1);
  EXPECT_EQ(document["model"]["layers"], 4);
  EXPECT_EQ(document["checkpoint"]["async"], true);
  expect_same(config_from_json(document), c);
}

TEST(Serialize, BadJsonIsAnError) {
  json deep = json::object();
  for (int i = 0; i < 200; ++i) deep = json{{"a", deep}};
  for (const json& document :
       {json(), json(5), json::array(), json{{"model", "tiny"}, {"nope", 1}}, deep,
        json{{"model", "tiny"}, {"seq_len", "x"}}, json{{"model", 3.5}}}) {
    EXPECT_EQ(error_of([&] { config_from_json(document); }).code(), ExitCode::bad_config)
        << document.dump().substr(0, 80);
  }
}

TEST(Serialize, RandomNumbersSurvive) {
  EXPECT_TRUE(
      rc::check("numbers survive YAML and JSON", [](uint64_t seed, double lr, int32_t steps) {
        Config c;
        c.model = find_model("tiny");
        c.seq_len = 128;
        c.seed = seed >> 1;
        c.train.lr = std::isfinite(lr) ? lr : 1;
        c.train.steps = steps;
        const Config yaml = load_config_text(to_yaml(c), "x").config;
        const Config back = config_from_json(json::parse(to_json(c).dump()));
        RC_ASSERT(yaml.seed == c.seed && yaml.train.lr == c.train.lr && yaml.train.steps == steps);
        RC_ASSERT(back.seed == c.seed && back.train.lr == c.train.lr && back.train.steps == steps);
      }));
}

TEST(Serialize, ShowNamesTheOriginOfEveryLine) {
  const std::string text = to_yaml(load_config({"tiny", "train.lr=1e-3"}));
  EXPECT_CONTAINS(text, "  layers: 4                              # model tiny\n");
  EXPECT_CONTAINS(text, "  lr: 0.001                              # command line\n");
  EXPECT_CONTAINS(text, "seq_len: 128                             # model.positions\n");
  EXPECT_CONTAINS(text, "seed: 1234                               # default\n");
  expect_same(load_config_text(text, "x").config, load_config({"tiny", "train.lr=1e-3"}).config);
}

// Every property of the schema is a key that the reader takes, and the other way round.
void collect(const json& schema, const std::string& prefix, std::vector<std::string>& names) {
  for (const auto& [name, child] : schema["properties"].items()) {
    if (prefix.empty() && name == "variables") continue;
    const json& inner = prefix.empty() && name == "model" ? child["anyOf"][1] : child;
    if (inner.contains("properties")) {
      EXPECT_EQ(inner["additionalProperties"], false) << name;
      collect(inner, prefix + name + ".", names);
    } else {
      names.push_back(prefix + name);
      EXPECT_TRUE(child.contains("description")) << name;
    }
  }
}

TEST(Schema, IsTheTableOfKeys) {
  const json schema = config_schema();
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["additionalProperties"], false);
  std::vector<std::string> names, keys;
  collect(schema, "", names);
  for (const Key& key : config_keys()) keys.push_back(key.name);
  std::sort(names.begin(), names.end());
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(names, keys);
}

// YAML 1.1 readers, which most editors use, take a number without a point for a text.
TEST(Schema, TakesNumbersThatYamlReadersTakeForTexts) {
  const json schema = config_schema();
  const json& forms = schema["properties"]["train"]["properties"]["lr"]["anyOf"];
  const std::regex text(forms[1]["pattern"].get<std::string>());
  for (const char* number : {"6e-4", "1E+2", "0.1", "-3", "${variables.lr}"}) {
    EXPECT_TRUE(std::regex_search(number, text)) << number;
  }
  for (const char* word : {"6e-4x", "fast", "e", ""}) {
    EXPECT_FALSE(std::regex_search(word, text)) << word;
  }
}

TEST(Runs, EveryExampleIsValid) {
  int seen = 0;
  const std::filesystem::path dir = std::filesystem::path(STRETTO_SOURCE_DIR) / "configs/runs";
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    EXPECT_NO_THROW(require_valid(load_config({entry.path().string()}))) << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 4);
}

}  // namespace
}  // namespace stretto
