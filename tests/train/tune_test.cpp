// What is said about steps timed in turn, before and after tuning.
#include "train/tune.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stretto {
namespace {

TuneResult compared(const std::vector<double>& before, const std::vector<double>& after) {
  TuneResult result;
  compare_turns(result, before, after);
  return result;
}

TEST(TuneTurns, WhatIsAlwaysAsMuchFasterIsCertain) {
  for (const double seconds : {1e-3, 0.25, 8.0}) {
    const TuneResult r =
        compared({seconds, seconds, seconds}, {seconds / 2, seconds / 2, seconds / 2});
    EXPECT_DOUBLE_EQ(r.before, seconds);
    EXPECT_DOUBLE_EQ(r.after, seconds / 2);
    EXPECT_EQ(r.uncertainty, 0);
  }
}

// The standard error of the mean ratio: it has no unit, and falls with the root of the turns.
TEST(TuneTurns, OnlyTheScatterOfTheRatiosCounts) {
  const std::vector<double> before = {2.2, 1.8, 2.2, 1.8}, after = {1, 1, 1, 1};
  const TuneResult r = compared(before, after);
  EXPECT_NEAR(r.uncertainty, 0.2 / std::sqrt(4.0), 1e-12);  // one deviation, of the mean of four
  for (const double unit : {1e-3, 10.0}) {
    std::vector<double> slow = before, fast = after;
    for (double& seconds : slow) seconds *= unit;
    for (double& seconds : fast) seconds *= unit;
    EXPECT_NEAR(compared(slow, fast).uncertainty, r.uncertainty, 1e-12);
  }
  std::vector<double> more = before, others = after;
  for (int i = 0; i < 3; ++i) {
    more.insert(more.end(), before.begin(), before.end());
    others.insert(others.end(), after.begin(), after.end());
  }
  EXPECT_NEAR(compared(more, others).uncertainty, r.uncertainty / 2, 1e-12);
}

}  // namespace
}  // namespace stretto
