// The config and models verbs as a user runs them: output, streams and exit codes.
#include <nlohmann/json.hpp>

#include "cli/verbs.h"
#include "config/support.h"

namespace stretto {
namespace {

struct Answer {
  int code = 0;
  std::string out, err;
};

Answer stretto_run(std::vector<std::string> words) {
  words.insert(words.begin(), "stretto");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Answer answer;
  answer.code = cli::run(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  answer.out = testing::internal::GetCapturedStdout();
  answer.err = testing::internal::GetCapturedStderr();
  return answer;
}

TEST(ConfigVerb, CheckPrintsEveryFinding) {
  EXPECT_EQ(stretto_run({"config", "check", "tiny"}).code, 0);
  const Answer bad = stretto_run({"config", "check", "tiny", "parallel.tp=8", "train.lr=0"});
  EXPECT_EQ(bad.code, 78);
  EXPECT_CONTAINS(bad.out, "error [heads-tp]  command line  parallel.tp: 8");
  EXPECT_CONTAINS(bad.out, "error [learning-rate]");
  EXPECT_CONTAINS(bad.out, "  fix: use 1, 2 or 4");
  EXPECT_CONTAINS(bad.out, "not valid: 2 errors");
  const Answer json = stretto_run({"config", "check", "gpt2-124m", "--json"});
  EXPECT_EQ(json.code, 0);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["ok"], true);
  EXPECT_EQ(document["findings"][0]["rule"], "vocab-padding");
}

TEST(ConfigVerb, ShowAndSchema) {
  const Answer show = stretto_run({"config", "show", "tiny", "train.lr=1e-3"});
  EXPECT_EQ(show.code, 0);
  EXPECT_CONTAINS(show.out, "# command line");
  const auto json = nlohmann::json::parse(stretto_run({"config", "show", "tiny", "--json"}).out);
  EXPECT_EQ(json["config"]["model"]["layers"], 4);
  EXPECT_EQ(json["origins"]["model.layers"], "model tiny");
  const auto schema = nlohmann::json::parse(stretto_run({"config", "schema"}).out);
  EXPECT_TRUE(schema["properties"].contains("parallel"));
}

TEST(ConfigVerb, ExitCodes) {
  const test::TempDir dir;
  EXPECT_EQ(stretto_run({"config", "show", dir / "none.yaml"}).code, 66);
  EXPECT_EQ(stretto_run({"config", "show", dir / ""}).code, 78);
  EXPECT_EQ(stretto_run({"config", "show", dir.write("e.yaml", "")}).code, 78);
  EXPECT_EQ(stretto_run({"config", "show", dir.write("b.yaml", "\x7f\x01\xff")}).code, 78);
  EXPECT_EQ(stretto_run({"config", "show", dir.write("l.yaml", std::string(1'000'000, 'x'))}).code,
            78);
  EXPECT_EQ(stretto_run({"config", "show"}).code, 64);
  const Answer typo = stretto_run({"config", "show", "tiny", "trian.lr=1"});
  EXPECT_EQ(typo.code, 78);
  EXPECT_TRUE(typo.out.empty());
  EXPECT_CONTAINS(typo.err, "fix: did you mean 'train'");
}

TEST(ModelsVerb, ListsAndShows) {
  const Answer all = stretto_run({"models"});
  EXPECT_EQ(all.code, 0);
  EXPECT_CONTAINS(all.out, "124,439,808");
  const auto one = nlohmann::json::parse(stretto_run({"models", "mpt-7b", "--json"}).out);
  EXPECT_EQ(one["parameters"], 6658859008);
  EXPECT_CONTAINS(stretto_run({"models", "gpt2-124m"}).out, "12 of 64");
  const Answer unknown = stretto_run({"models", "mpt-7"});
  EXPECT_EQ(unknown.code, 78);
  EXPECT_CONTAINS(unknown.err, "'mpt-7b'");
}

}  // namespace
}  // namespace stretto
