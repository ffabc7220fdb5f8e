#include "train/straggler.h"

#include <gtest/gtest.h>

#include <random>

namespace stretto {
namespace {

// A window of steps of `tokens` each, in which the ranks took so long.
std::vector<std::string> judged(StragglerWatch& watch, const std::vector<double>& seconds,
                                int64_t tokens = 1024) {
  while (!watch.add(seconds[0], tokens)) {
  }
  return watch.judge(seconds);
}

TEST(Straggler, NamesASlowRankAfterThreeWindowsOnce) {
  StragglerWatch watch({0, 0, 0, 0});
  const std::vector<double> seconds = {1.0, 1.02, 1.45, 0.99};
  EXPECT_TRUE(judged(watch, seconds).empty());
  EXPECT_TRUE(judged(watch, seconds).empty());
  const auto lines = judged(watch, seconds);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("rank 2 (stage 0) is slow"), std::string::npos) << lines[0];
  EXPECT_TRUE(judged(watch, seconds).empty());
}

TEST(Straggler, OneGoodWindowStartsTheCountAgain) {
  StragglerWatch watch({0, 0});
  const std::vector<double> slow = {1.0, 2.0}, even = {1.0, 1.0};
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(judged(watch, slow).empty());
    EXPECT_TRUE(judged(watch, slow).empty());
    EXPECT_TRUE(judged(watch, even).empty());
  }
}

TEST(Straggler, StagesWithMoreWorkAreNotSlow) {
  StragglerWatch watch({0, 0, 1, 1});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(judged(watch, {1.0, 1.1, 2.0, 2.1}).empty());
}

TEST(Straggler, ARankAloneOnItsStageIsMeasuredAgainstItself) {
  StragglerWatch watch({0, 1});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(judged(watch, {1.0, 2.0}).empty());
  EXPECT_TRUE(judged(watch, {1.0, 3.0}).empty());
  EXPECT_TRUE(judged(watch, {1.0, 3.0}).empty());
  EXPECT_EQ(judged(watch, {1.0, 3.0}).size(), 1u);
}

// train.ramp_up: steps grow with the batch. That is no reason to name a rank that has nobody to be
// compared with, nor to forget how fast it was.
TEST(Straggler, AGrowingBatchDoesNotMakeARankSlow) {
  StragglerWatch watch({0, 1});
  int64_t tokens = 1024;
  for (; tokens <= 64 * 1024; tokens *= 2) {
    for (int i = 0; i < 4; ++i) {
      const double seconds = 1e-3 * static_cast<double>(tokens);
      EXPECT_TRUE(judged(watch, {seconds, 2 * seconds}, tokens).empty()) << tokens;
    }
  }
  EXPECT_TRUE(judged(watch, {100, 300}, 100 * 1000).empty());
  EXPECT_TRUE(judged(watch, {110, 330}, 110 * 1000).empty());
  const auto lines = judged(watch, {120, 360}, 120 * 1000);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("rank 1 (stage 1) is slow: 360 s of compute per step, 240 s is"),
            std::string::npos)
      << lines[0];
}

// A window in which the batch grows has steps of several sizes.
TEST(Straggler, AWindowMayHoldStepsOfSeveralSizes) {
  StragglerWatch watch({0, 1}, {.window = 2});
  for (int64_t step = 1; step < 40; step += 2) {
    watch.add(static_cast<double>(step), step * 512);
    ASSERT_TRUE(watch.add(static_cast<double>(step + 1), (step + 1) * 512));
    const double mean = watch.window_seconds();
    EXPECT_TRUE(watch.judge({mean, 2 * mean}).empty()) << step;
  }
}

TEST(Straggler, NoiseBelowTheThresholdIsNotNamed) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(1.0, 1.3);
  StragglerWatch watch(std::vector<int>(8, 0));
  for (int i = 0; i < 1000; ++i) {
    std::vector<double> seconds;
    for (int r = 0; r < 8; ++r) seconds.push_back(noise(random));
    EXPECT_TRUE(judged(watch, seconds).empty());
  }
}

TEST(Straggler, WindowsCountSteps) {
  StragglerWatch watch({0, 0}, {.window = 2});
  EXPECT_FALSE(watch.add(1.0, 8));
  EXPECT_TRUE(watch.add(3.0, 8));
  EXPECT_DOUBLE_EQ(watch.window_seconds(), 2.0);
  watch.judge({2.0, 2.0});
  EXPECT_FALSE(watch.add(1.0, 8));
}

}  // namespace
}  // namespace stretto
