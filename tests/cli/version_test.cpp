// What the program says of itself, as people and programs read it.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/verbs.h"

namespace stretto {
namespace {

std::string output_of(std::vector<std::string> words) {
  words.insert(words.begin(), "stretto");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  const int code = cli::run(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0) << out;
  return out;
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

}  // namespace
}  // namespace stretto
