// Output that cannot be written is an error, and a full stderr hides none.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
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

TEST(LostOutput, OfErrorsLeavesTheirCode) {
  EXPECT_EQ(code_of("train tiny train.lr=-1 2> /dev/full"), 78);
  EXPECT_EQ(code_of("train tiny train.lr=-1 2>&-"), 78);
}

}  // namespace
}  // namespace stretto::test
