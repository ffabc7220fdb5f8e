#include "train/clock_governor.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

// A card whose clock wanders around 1,560 MHz as it comes; a ceiling makes steps `gain` shorter.
struct Card {
  double seconds = 0.45;
  double gain = 0.02;
  bool capped = true;
  int64_t limit = 0;
  std::vector<int64_t> orders;

  void run(ClockGovernor& governor, int steps) {
    for (int i = 0; i < steps; ++i) {
      const double wobble = 1 + 0.001 * ((i * 7) % 5 - 2);
      const double clock = limit > 0 ? 1455 : 1560 + 20 * ((i * 3) % 5 - 2);
      const auto order = governor.observe(
          {wobble * seconds * (limit > 0 ? 1 - gain : 1), capped, clock, 1 + i % 4});
      if (!order) continue;
      limit = *order;
      orders.push_back(*order);
    }
  }
};

TEST(ClockGovernor, HoldsTheMeanClockWhereStepsBecomeShorter) {
  ClockGovernor governor;
  Card card;
  card.run(governor, 100);
  ASSERT_TRUE(governor.done());
  ASSERT_EQ(card.orders.size(), 1u);
  EXPECT_NEAR(static_cast<double>(card.orders[0]), 1560, 15);
  EXPECT_EQ(card.orders[0] % 15, 0);
  EXPECT_EQ(governor.limit(), card.orders[0]);
  EXPECT_NEAR(governor.before(), 0.45, 1e-3);
  EXPECT_NEAR(governor.after(), 0.441, 1e-3);
}

TEST(ClockGovernor, LiftsItAgainWhereTheyDoNot) {
  for (const double gain : {0.0, -0.03}) {
    ClockGovernor governor;
    Card card;
    card.gain = gain;
    card.run(governor, 100);
    ASSERT_TRUE(governor.done());
    ASSERT_EQ(card.orders.size(), 2u);
    EXPECT_EQ(card.orders[1], 0);
    EXPECT_EQ(governor.limit(), 0);
  }
}

TEST(ClockGovernor, LeavesACardAloneThatNoCapHoldsBack) {
  ClockGovernor governor;
  Card card;
  card.capped = false;
  card.run(governor, 100);
  EXPECT_TRUE(governor.done());
  EXPECT_TRUE(card.orders.empty());
  EXPECT_EQ(governor.before(), 0);
}

// Without samples (no NVML) there is no clock to hold.
TEST(ClockGovernor, NeedsSamples) {
  ClockGovernor governor;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(governor.observe({0.45, true, 0, 0}));
  EXPECT_TRUE(governor.done());
}

// Long steps and short ones: a few seconds and several steps either way, the first ones not
// counted.
TEST(ClockGovernor, TakesSecondsAndSteps) {
  for (const double seconds : {0.001, 0.1, 30.0}) {
    ClockGovernor governor;
    Card card;
    card.seconds = seconds;
    int steps = 0;
    for (; !governor.done(); ++steps) card.run(governor, 1);
    EXPECT_GE(steps, 24) << seconds;
    EXPECT_GE(steps * seconds, 13) << seconds;
    EXPECT_LE(steps, std::max(30.0, 15.5 / seconds)) << seconds;
  }
}

}  // namespace
}  // namespace stretto
