// The registry: exact parameter counts, shapes taken from the published tables, unknown names.
#include "config/registry.h"

#include <map>
#include <set>
#include <sstream>

#include "account/parameters.h"
#include "config/rules.h"
#include "config/support.h"

namespace stretto {
namespace {

using test::error_of;

using Row = std::map<std::string, std::string>;

// Splits on commas outside quotes; enough for reference/*.csv.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else if (c != '\r') {
      out.back() += c;
    }
  }
  return out;
}

std::vector<Row> table(const std::string& name) {
  std::ifstream file(std::string(STRETTO_SOURCE_DIR) + "/reference/" + name);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> head = cells(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = cells(line);
    Row row;
    for (size_t i = 0; i < head.size() && i < values.size(); ++i) row[head[i]] = values[i];
    rows.push_back(row);
  }
  return rows;
}

TEST(Registry, HoldsEveryFamily) {
  std::map<std::string, int> families;
  for (const RegistryModel& model : registry_models()) ++families[model.family];
  EXPECT_EQ(families["mpt"], 9);
  EXPECT_EQ(families["mosaicgpt"], 7);
  EXPECT_EQ(families["gpt2"], 4);
  EXPECT_EQ(families["fugaku"], 3);
  EXPECT_GE(families["tiny"], 4);
  EXPECT_GE(families["bloom"], 20);
}

TEST(Registry, ParameterCountsAreThePublishedOnes) {
  const std::map<std::string, int64_t> published = {
      {"gpt2-124m", 124439808},
      {"gpt2-355m", 354823168},
      {"gpt2-774m", 774030080},
      {"gpt2-1558m", 1557611200},
      {"fugaku-124m", 124475904},
      {"bloom-176b", 176247271424 - 2 * 14336}};  // without the embedding LayerNorm
  for (const auto& [name, count] : published) {
    EXPECT_EQ(parameter_count(find_model(name)), count) << name;
  }
}

TEST(Registry, EveryRowOfThePublishedTablesHasItsModel) {
  const std::map<std::string, std::string> prefixes = {{"mpt.csv", ""},
                                                       {"mosaicgpt.csv", "mosaic"}};
  int rows = 0;
  for (const auto& [file, prefix] : prefixes) {
    for (const Row& row : table(file)) {
      std::string name = prefix + row.at("model");
      if (prefix == "mosaic") name.insert(name.find("gpt") + 3, "-");
      ModelShape shape = find_model(name);
      EXPECT_EQ(std::to_string(shape.layers), row.at("layers")) << name;
      EXPECT_EQ(std::to_string(shape.hidden), row.at("hidden")) << name;
      EXPECT_EQ(std::to_string(shape.heads), row.at("heads")) << name;
      EXPECT_EQ(std::to_string(shape.vocab), row.at("vocab")) << name;
      ++rows;
    }
  }
  EXPECT_EQ(rows, 498);
}

TEST(Registry, EveryShapeOfThePrequelIsThere) {
  std::set<std::string> names;
  for (const RegistryModel& model : registry_models()) names.insert(model.shape.name);
  int seen = 0;
  for (const Row& row : table("bloom.csv")) {
    if (row.at("layers").empty()) continue;
    const std::string base = "bloom-prequel-" + row.at("layers") + "x" + row.at("hidden") + "h";
    const auto found = names.lower_bound(base + row.at("heads"));
    ASSERT_NE(found, names.end());
    EXPECT_EQ(found->compare(0, base.size(), base), 0) << base;
    if (!row.at("heads").empty()) {
      EXPECT_EQ(*found, base + row.at("heads"));
    }
    ++seen;
  }
  EXPECT_GT(seen, 90);
}

TEST(Registry, NamesAreUniqueAndShapesValid) {
  std::set<std::string> names;
  for (const RegistryModel& model : registry_models()) {
    const ModelShape& shape = model.shape;
    EXPECT_TRUE(names.insert(shape.name).second) << shape.name;
    Config config;
    config.model = shape;
    config.seq_len = shape.positions;
    EXPECT_NO_THROW(require_valid(config)) << shape.name;
    EXPECT_EQ(shape.ffn, 4 * shape.hidden) << shape.name;
  }
}

TEST(Registry, UnknownNameSuggests) {
  const Error error = error_of([] { find_model("gpt2-124"); });
  EXPECT_EQ(error.code(), ExitCode::no_input);  // as for a file that is not there
  EXPECT_CONTAINS(std::string(error.what()), "'gpt2-124'");
  EXPECT_CONTAINS(error.hint(), "did you mean 'gpt2-124m'");
  EXPECT_CONTAINS(error_of([] { find_model("zzzzzz"); }).hint(), "stretto models");
}

}  // namespace
}  // namespace stretto
