// sweep: what its plan says of points that have run.
#include <gtest/gtest.h>

#include "support/program.h"

namespace stretto::test {
namespace {

TEST(SweepVerb, ThePlanCountsWhatIsLeft) {
  const TempDir dir{Where::memory};
  const std::string spec =
      dir.write("s.yaml",
                "base: tiny-100k\nset: {seq_len: 16, global_batch: 2, micro_batch: 1, threads: 1}\n"
                "points: [{name: one}, {name: two, seed: 2}, {name: long, seq_len: 65536}]\n"
                "steps: 2\nseconds: 0\n");
  const std::vector<std::string> words = {"sweep", spec, "--out", dir / "out"};
  const auto answer = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    const Answer a = stretto_run(all);
    EXPECT_EQ(a.code, 0) << a.err;
    return a.out;
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  answer({"--run", "--only", "one"});
  std::string plan = answer({});
  EXPECT_TRUE(contains(plan, "3 points, 1 to run, 1 finished before, 1 that cannot")) << plan;
  EXPECT_TRUE(contains(plan, "Add --run")) << plan;
  answer({"--run"});
  plan = answer({});
  EXPECT_TRUE(contains(plan, "3 points, 0 to run, 2 finished before, 1 that cannot")) << plan;
  EXPECT_TRUE(contains(plan, "Nothing is left: stretto collect")) << plan;
  plan = answer({"--steps", "9"});
  EXPECT_TRUE(contains(plan, "3 points, 2 to run, 1 that cannot")) << plan;
}

}  // namespace
}  // namespace stretto::test
