// compare --bench: two programs that take their steps in turns.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/program.h"

namespace stretto::test {
namespace {

using nlohmann::json;

Answer in_turns(const std::string& a, const std::string& b, const std::string& out,
                const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"compare",
                                    a,
                                    b,
                                    "--bench",
                                    "tiny-100k",
                                    "seq_len=16",
                                    "global_batch=2",
                                    "micro_batch=1",
                                    "threads=1",
                                    "--runs",
                                    "2",
                                    "--steps",
                                    "5",
                                    "--seconds",
                                    "0",
                                    "--json"};
  if (!out.empty()) words.insert(words.end(), {"--out", out});
  words.insert(words.begin() + 5, more.begin(), more.end());
  return stretto_run(words);
}

TEST(CompareVerb, ProgramsTakeTheirStepsInTurns) {
  const TempDir dir{Where::memory};
  const Answer answer = in_turns(STRETTO_PROGRAM, STRETTO_PROGRAM, dir / "out");
  ASSERT_TRUE(answer.code == 0 || answer.code == 1) << answer.err;  // five steps prove little
  const json verdict = json::parse(answer.out)[0];
  EXPECT_TRUE(verdict["in_turns"]);
  EXPECT_EQ(verdict["runs_a"], 2);
  EXPECT_EQ(verdict["verdict"] == "slower", answer.code == 1);
  for (const char* run : {"run0", "run1"}) {
    const json a = json::parse(content_of(dir / "out/a/" + run + ".json"));
    const json b = json::parse(content_of(dir / "out/b/" + run + ".json"));
    EXPECT_EQ(a["turns"], b["turns"]);
    EXPECT_EQ(a["steps"]["seconds"].size(), 6u);  // the first is nobody's neighbour
    EXPECT_EQ(b["steps"]["seconds"].size(), 6u);
  }
  const Answer again = stretto_run({"compare", dir / "out/a", dir / "out/b", "--json"});
  EXPECT_EQ(again.code, answer.code) << again.err;
  EXPECT_EQ(json::parse(again.out)[0], verdict) << "the records give the answer again";
  EXPECT_EQ(in_turns(STRETTO_PROGRAM, STRETTO_PROGRAM, dir / "out").code, 73);  // not mixed
  EXPECT_NE(json::parse(content_of(dir / "out/a/run0.json"))["turns"],
            json::parse(content_of(dir / "out/a/run1.json"))["turns"]);
}

TEST(CompareVerb, RanksTakeTurnsToo) {
  const Answer answer =
      in_turns(STRETTO_PROGRAM, STRETTO_PROGRAM, "", {"parallel.dp=2", "parallel.zero=1"});
  ASSERT_TRUE(answer.code == 0 || answer.code == 1) << answer.err;
  EXPECT_TRUE(json::parse(answer.out)[0]["in_turns"]);
}

TEST(CompareVerb, AProgramThatCannotPlayIsNamed) {
  const Answer answer = in_turns(STRETTO_PROGRAM, "/bin/true", "");
  EXPECT_EQ(answer.code, 71);
  EXPECT_TRUE(answer.says("/bin/true")) << answer.err;
  EXPECT_TRUE(answer.says("--in-turns")) << answer.err;
  EXPECT_EQ(stretto_run({"compare", "a", "b", "--bench", "tiny-100k", "--runs", "0"}).code, 64);
  const Answer alone = stretto_run({"bench", "tiny-100k", "--in-turns", "x"});
  EXPECT_EQ(alone.code, 64) << alone.err;
  const Answer config = in_turns(STRETTO_PROGRAM, STRETTO_PROGRAM, "", {"parallel.tp=3"});
  EXPECT_EQ(config.code, 78) << config.err;
}

TEST(CompareVerb, CtrlCLeavesNothingBehind) {
  const TempDir dir{Where::memory};
  ::setenv("TMPDIR", (dir / "").c_str(), 1);
  Program program({"compare", STRETTO_PROGRAM, STRETTO_PROGRAM, "--bench", "tiny-100k",
                   "seq_len=16", "threads=1", "--steps", "900", "--seconds", "600"});
  ::unsetenv("TMPDIR");
  const auto records = [&] {
    const std::filesystem::directory_iterator found(dir / "");
    return found == end(found) ? "" : found->path().string();
  };
  while (!program.ended() && !std::filesystem::exists(records() + "/b/run0.log")) {
    std::this_thread::yield();
  }
  program.signal(SIGINT);
  const Answer answer = program.wait();
  EXPECT_EQ(answer.code, 75) << answer.err;
  EXPECT_TRUE(answer.says("run the same command again")) << answer.err;
  EXPECT_EQ(records(), "");
}

}  // namespace
}  // namespace stretto::test
