// Output that cannot be written is an error, and a full stderr hides none.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/fs.h"
#include "bench/sample_record.h"
#include "support/temp_dir.h"

namespace stretto::test {
namespace {

int code_of(const std::string& words) {
  return WEXITSTATUS(std::system((STRETTO_PROGRAM " " + words).c_str()));
}

TEST(LostOutput, IsAnError) {
  EXPECT_EQ(code_of("models > /dev/full 2> /dev/null"), 74);
  EXPECT_EQ(code_of("flops tiny > /dev/full 2> /dev/null"), 74);
  EXPECT_EQ(code_of("flops tiny > /dev/null"), 0);
}

TEST(LostOutput, IsAnErrorWhateverTheAnswerWas) {
  const TempDir dir{Where::memory};
  const std::string base = dir / "base.json", slow = dir / "slow.json";
  RunRecord record = sample_record();
  write_record(posix_fs(), base, record);
  for (auto& step : record.steps) step.seconds *= 2;
  write_record(posix_fs(), slow, record);
  EXPECT_EQ(code_of("compare " + base + " " + slow + " > /dev/null"), 1);
  EXPECT_EQ(code_of("compare " + base + " " + slow + " > /dev/full 2> /dev/null"), 74);
}

// `| head`, or `| tee` that Ctrl-C has ended.
TEST(LostOutput, ARunThatNobodyReadsStopsInOrder) {
  const TempDir dir{Where::memory};
  const std::string command =
      "(" STRETTO_PROGRAM " train tiny-100k train.steps=1000000 threads=1 output=" + (dir / "run") +
      "; echo $? > " + (dir / "code") + ") 2> " + (dir / "err") + " | head -n 1 > /dev/null";
  const auto inherited = ::signal(SIGPIPE, SIG_DFL);
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0);
  ::signal(SIGPIPE, inherited);
  const std::string said = read_file(posix_fs(), dir / "err", 1 << 16);
  EXPECT_EQ(read_file(posix_fs(), dir / "code", 16), "75\n") << said;
  EXPECT_NE(said.find("the same command continues"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::is_empty(dir / "run/checkpoints"));
}

// As services of systemd do, which have a log that may be started anew.
TEST(LostOutput, ARunGoesOnWhereBrokenPipesAreIgnored) {
  const TempDir dir{Where::memory};
  const std::string command =
      "(" STRETTO_PROGRAM " train tiny-100k train.steps=40 threads=1 output=" + (dir / "run") +
      " 2> " + (dir / "err") + ") | true";
  const auto inherited = ::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0);
  ::signal(SIGPIPE, inherited);
  const std::string said = read_file(posix_fs(), dir / "err", 1 << 16);
  EXPECT_TRUE(std::filesystem::exists(dir / "run/checkpoints/step-40")) << said;
}

// The next file that is opened would take the place of a closed stream.
TEST(LostOutput, OfAClosedStreamGoesIntoNoFile) {
  const TempDir dir{Where::memory};
  const std::string words =
      "train tiny model.layers=2 seq_len=32 micro_batch=2 global_batch=4 train.warmup=0 "
      "train.steps=2 output=";
  EXPECT_EQ(code_of(words + (dir / "out") + " 2> /dev/null >&-"), 74);
  EXPECT_EQ(code_of(words + (dir / "err") + " > /dev/null 2>&-"), 0);
  for (const char* run : {"out/lock", "err/lock"}) {
    const std::string text = read_file(posix_fs(), dir / run, 1 << 16);
    EXPECT_EQ(text.rfind("process ", 0), 0u) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
}

TEST(LostOutput, OfFilesThatMayNotGrowIsAnErrorToo) {
  const TempDir dir{Where::memory};
  const std::string path = dir / "scale.svg";
  EXPECT_EQ(WEXITSTATUS(std::system(("ulimit -f 1; " STRETTO_PROGRAM " plan mpt-7b --scale --svg " +
                                     path + " > /dev/null 2>&1")
                                        .c_str())),
            74);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(LostOutput, OfErrorsLeavesTheirCode) {
  EXPECT_EQ(code_of("train tiny train.lr=-1 2> /dev/full"), 78);
  EXPECT_EQ(code_of("train tiny train.lr=-1 2>&-"), 78);
}

}  // namespace
}  // namespace stretto::test
