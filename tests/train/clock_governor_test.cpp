#include "train/clock_governor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace stretto {
namespace {

// A card whose clock wanders around 1,560 MHz as it comes; ceilings make steps shorter.
struct Card {
  double seconds = 0.45;
  double gain_at_mean = 0.02, gain_above = 0.01;
  bool capped = true;
  int64_t limit = 0;
  std::vector<int64_t> orders;

  double gain() const { return limit == 0 ? 0 : limit > 1590 ? gain_above : gain_at_mean; }
  void run(ClockGovernor& governor, int steps) {
    for (int i = 0; i < steps; ++i) {
      const double wobble = 1 + 0.001 * ((i * 7) % 5 - 2);
      const double clock = limit > 0 ? 1455 : 1560 + 20 * ((i * 3) % 5 - 2);
      const auto order =
          governor.observe({wobble * seconds * (1 - gain()), capped, clock, 1 + i % 4});
      if (!order) continue;
      limit = *order;
      orders.push_back(*order);
    }
  }
};

TEST(ClockGovernor, HoldsTheBetterOfTwoCeilings) {
  for (const bool mean_is_better : {true, false}) {
    ClockGovernor governor;
    Card card;
    if (!mean_is_better) std::swap(card.gain_at_mean, card.gain_above);
    card.run(governor, 100);
    ASSERT_TRUE(governor.done());
    ASSERT_EQ(card.orders.size(), mean_is_better ? 2u : 3u);
    for (const int64_t order : card.orders) EXPECT_EQ(order % 15, 0);
    EXPECT_NEAR(static_cast<double>(card.orders[0]), 1620, 15);
    EXPECT_NEAR(static_cast<double>(card.orders[1]), 1560, 15);
    EXPECT_EQ(card.orders.back(), card.orders[mean_is_better ? 1 : 0]);
    EXPECT_EQ(governor.limit(), card.limit);
    EXPECT_NEAR(governor.before(), 0.45, 1e-3);
    EXPECT_NEAR(governor.after(), 0.441, 1e-3);
  }
}

TEST(ClockGovernor, LiftsItAgainWhereNeitherHelps) {
  for (const double gain : {0.0, -0.03}) {
    ClockGovernor governor;
    Card card;
    card.gain_at_mean = card.gain_above = gain;
    card.run(governor, 100);
    ASSERT_TRUE(governor.done());
    ASSERT_EQ(card.orders.size(), 3u);
    EXPECT_EQ(card.orders[2], 0);
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

// Without samples (no NVML) a rank has no clock to hold. It must stay in phase with ranks that have
// some.
TEST(ClockGovernor, KeepsStepWithoutSamples) {
  ClockGovernor blind, other;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(blind.done(), other.done()) << i;
    EXPECT_FALSE(blind.observe({0.45, true, 0, 0}));
    other.observe({0.45, true, 1560, 4});
  }
  EXPECT_TRUE(blind.done());
  EXPECT_EQ(blind.limit(), 0);
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
    EXPECT_GE(steps, 32) << seconds;
    EXPECT_GE(steps * seconds, 18) << seconds;
    EXPECT_LE(steps, std::max(40.0, 21 / seconds)) << seconds;
  }
}

}  // namespace
}  // namespace stretto
