// What the program says of itself, as people and programs read it.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/build_info.h"
#include "support/run_verb.h"

namespace stretto {
namespace {

std::string output_of(const std::vector<std::string>& words) {
  const VerbAnswer answer = run_verb(words);
  EXPECT_EQ(answer.code, 0) << answer.err;
  return answer.out;
}

TEST(Version, FlagStandsForTheVerb) {
  const std::string text = output_of({"--version"});
  EXPECT_EQ(text, output_of({"version"}));
  EXPECT_EQ(text.rfind("stretto " STRETTO_PROJECT_VERSION "\n", 0), 0u) << text;
  EXPECT_EQ(output_of({"--version", "--json"}), output_of({"version", "--json"}));
}

TEST(Version, JsonNamesEveryPart) {
  const auto json = nlohmann::json::parse(output_of({"version", "--json"}));
  EXPECT_EQ(json["version"], STRETTO_PROJECT_VERSION);
  for (const char* key : {"commit", "compiler", "build_type", "openblas"}) {
    ASSERT_TRUE(json[key].is_string()) << key;
    EXPECT_FALSE(json[key].get<std::string>().empty()) << key;
  }
  for (const char* key : {"onednn", "mpi", "cuda", "cudnn", "nccl"}) {
    ASSERT_TRUE(json.contains(key)) << key;
    EXPECT_TRUE(json[key].is_string() || json[key].is_null()) << key;
  }
}

// A record says as much of its libraries as the program does.
TEST(Version, RecordsNameTheSameLibraries) {
  const auto json = nlohmann::json::parse(output_of({"version", "--json"}));
  const std::string libraries = build_info().libraries;
  for (const char* key : {"openblas", "onednn", "mpi", "cuda", "cudnn", "nccl"}) {
    if (json[key].is_null()) continue;
    EXPECT_NE(libraries.find(json[key].get<std::string>()), std::string::npos) << libraries;
  }
}

}  // namespace
}  // namespace stretto
