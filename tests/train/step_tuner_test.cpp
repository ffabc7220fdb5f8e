#include "train/step_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace stretto {
namespace {

// A machine whose step takes a second, plus what each option costs, drift and noise.
struct Machine {
  std::vector<std::vector<double>> cost;  // by choice and option
  double noise = 0, drift = 0;
  uint64_t steps = 0;
  CounterRng rng{7, 7};

  std::vector<int> options() const {
    std::vector<int> counts;
    for (const auto& c : cost) counts.push_back(static_cast<int>(c.size()));
    return counts;
  }
  double step(const std::vector<int>& drawn) {
    double seconds =
        1 + noise * static_cast<double>(rng.normal(steps)) + drift * static_cast<double>(steps);
    for (size_t i = 0; i < cost.size(); ++i) seconds += cost[i][static_cast<size_t>(drawn[i])];
    ++steps;
    return seconds;
  }
};

StepTuner tuned(Machine& machine, int draws) {
  StepTuner tuner(machine.options(), 1);
  const int rounds = tuner.rounds();
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < draws / rounds; ++i) {
      const std::vector<int> drawn = tuner.draw();
      tuner.observe(drawn, machine.step(drawn));
    }
    tuner.halve();
  }
  return tuner;
}

// Twenty choices of up to five options, the best one 0.4 % of a step faster than the next.
Machine twenty_choices() {
  Machine machine;
  for (size_t i = 0; i < 20; ++i) {
    auto& cost = machine.cost.emplace_back();
    for (size_t o = 0; o < 1 + i % 5; ++o) cost.push_back(0.004 * static_cast<double>((o + i) % 5));
  }
  return machine;
}

std::vector<int> cheapest(const Machine& machine) {
  std::vector<int> best;
  for (const auto& c : machine.cost) {
    best.push_back(static_cast<int>(std::min_element(c.begin(), c.end()) - c.begin()));
  }
  return best;
}

TEST(StepTuner, FindsTheFastestOptionOfEveryChoice) {
  Machine machine = twenty_choices();
  EXPECT_EQ(tuned(machine, 120).best(), cheapest(machine));
}

TEST(StepTuner, FindsThemInNoiseAsLargeAsTheirDifferences) {
  Machine machine = twenty_choices();
  machine.noise = 0.004;
  EXPECT_EQ(tuned(machine, 900).best(), cheapest(machine));
}

TEST(StepTuner, IsNotMisledByACardThatWarmsUp) {
  Machine machine = twenty_choices();
  machine.drift = 0.0004;  // a sixth slower in the end
  EXPECT_EQ(tuned(machine, 400).best(), cheapest(machine));
}

TEST(StepTuner, EstimatesWhatAnOptionCosts) {
  Machine machine{.cost = {{0.03, 0.01, 0.02}, {0.0, 0.05}}};
  const StepTuner tuner = tuned(machine, 400);
  const auto& effects = tuner.effects();
  EXPECT_NEAR(effects[0][0] - effects[0][1], 0.02, 0.002);
  EXPECT_NEAR(effects[1][1] - effects[1][0], 0.05, 0.003);
}

TEST(StepTuner, LeavesAStepAsideThatMetSomethingElse) {
  Machine machine{.cost = {{0.0, 0.01}, {0.02, 0.0}}};
  StepTuner tuner(machine.options(), 3);
  int both = 0;
  for (int i = 0; i < 60; ++i) {
    const std::vector<int> drawn = tuner.draw();
    // Every third time that both are at their best, the step takes four times as long.
    const bool hiccup = drawn[0] == 0 && drawn[1] == 1 && ++both % 3 == 0;
    tuner.observe(drawn, hiccup ? 4 : machine.step(drawn));
  }
  EXPECT_GT(both, 6);
  tuner.halve();
  EXPECT_EQ(tuner.best(), (std::vector<int>{0, 1}));
}

TEST(StepTuner, DrawsOnlyWhatIsLeftAndEndsWithOneOfEach) {
  Machine machine{.cost = {{0.3, 0.1, 0.2, 0.4, 0.5}, {0.1}, {0.2, 0.1}}};
  StepTuner tuner(machine.options(), 5);
  EXPECT_EQ(tuner.rounds(), 3);  // five, three, two, one
  for (const size_t left : {5, 3, 2, 1}) {
    std::set<int> seen;
    for (int i = 0; i < 200; ++i) {
      const std::vector<int> drawn = tuner.draw();
      seen.insert(drawn[0]);
      EXPECT_EQ(drawn[1], 0);
      tuner.observe(drawn, machine.step(drawn));
    }
    EXPECT_EQ(seen.size(), left);
    EXPECT_TRUE(seen.contains(1));
    tuner.halve();
  }
  EXPECT_EQ(tuner.rounds(), 0);
  EXPECT_EQ(tuner.best(), (std::vector<int>{1, 0, 1}));
}

TEST(StepTuner, TheSameSeedDrawsTheSame) {
  StepTuner a({3, 4, 5}, 9), b({3, 4, 5}, 9), c({3, 4, 5}, 10);
  int different = 0;
  for (int i = 0; i < 50; ++i) {
    const auto drawn = a.draw();
    EXPECT_EQ(drawn, b.draw());
    different += drawn != c.draw() ? 1 : 0;
  }
  EXPECT_GT(different, 25);
}

}  // namespace
}  // namespace stretto
