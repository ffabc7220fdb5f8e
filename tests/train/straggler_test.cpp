#include "train/straggler.h"

#include <gtest/gtest.h>

#include <random>

namespace stretto {
namespace {

TEST(Straggler, NamesASlowRankAfterThreeWindowsOnce) {
  StragglerWatch watch({0, 0, 0, 0});
  const std::vector<double> seconds = {1.0, 1.02, 1.45, 0.99};
  EXPECT_TRUE(watch.judge(seconds).empty());
  EXPECT_TRUE(watch.judge(seconds).empty());
  const auto lines = watch.judge(seconds);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("rank 2 (stage 0) is slow"), std::string::npos) << lines[0];
  EXPECT_TRUE(watch.judge(seconds).empty());
}

TEST(Straggler, OneGoodWindowStartsTheCountAgain) {
  StragglerWatch watch({0, 0});
  const std::vector<double> slow = {1.0, 2.0}, even = {1.0, 1.0};
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(watch.judge(slow).empty());
    EXPECT_TRUE(watch.judge(slow).empty());
    EXPECT_TRUE(watch.judge(even).empty());
  }
}

TEST(Straggler, StagesWithMoreWorkAreNotSlow) {
  StragglerWatch watch({0, 0, 1, 1});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(watch.judge({1.0, 1.1, 2.0, 2.1}).empty());
}

TEST(Straggler, ARankAloneOnItsStageIsMeasuredAgainstItself) {
  StragglerWatch watch({0, 1});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(watch.judge({1.0, 2.0}).empty());
  EXPECT_TRUE(watch.judge({1.0, 3.0}).empty());
  EXPECT_TRUE(watch.judge({1.0, 3.0}).empty());
  EXPECT_EQ(watch.judge({1.0, 3.0}).size(), 1u);
}

TEST(Straggler, NoiseBelowTheThresholdIsNotNamed) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(1.0, 1.3);
  StragglerWatch watch(std::vector<int>(8, 0));
  for (int i = 0; i < 1000; ++i) {
    std::vector<double> seconds;
    for (int r = 0; r < 8; ++r) seconds.push_back(noise(random));
    EXPECT_TRUE(watch.judge(seconds).empty());
  }
}

TEST(Straggler, WindowsCountSteps) {
  StragglerWatch watch({0, 0}, {.window = 2});
  EXPECT_FALSE(watch.add(1.0));
  EXPECT_TRUE(watch.add(3.0));
  EXPECT_DOUBLE_EQ(watch.window_seconds(), 2.0);
  watch.judge({2.0, 2.0});
  EXPECT_FALSE(watch.add(1.0));
}

}  // namespace
}  // namespace stretto
