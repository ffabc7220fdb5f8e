#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace stretto {
namespace {

std::vector<double> noisy(size_t n, double level, double spread, uint64_t stream) {
  const CounterRng rng(7, stream);
  std::vector<double> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = level * (1 + spread * rng.normal(i));
  return out;
}

TEST(Warmup, FindsSlowFirstSteps) {
  int exact = 0;
  for (uint64_t stream = 0; stream < 50; ++stream) {
    std::vector<double> t = noisy(20, 1.0, 0.01, stream);
    t[0] = 9, t[1] = 2, t[2] = 1.4;
    const int64_t found = find_warmup(t, 8);
    EXPECT_GE(found, 3) << stream;
    EXPECT_LE(found, 8) << stream;
    exact += found == 3 ? 1 : 0;
  }
  EXPECT_GE(exact, 35);
}

TEST(Warmup, NoneInAConstantSeries) { EXPECT_EQ(find_warmup(std::vector<double>(16, 0.5), 4), 0); }

TEST(Warmup, OneSlowFirstStepInAnOtherwiseConstantSeries) {
  std::vector<double> t(16, 0.5);
  t[0] = 3;
  EXPECT_EQ(find_warmup(t, 4), 1);
}

TEST(Warmup, LateHiccupDoesNotMoveTheCut) {
  int moved = 0;
  for (uint64_t stream = 0; stream < 50; ++stream) {
    std::vector<double> t = noisy(16, 1.0, 0.005, stream);
    t[0] = 4;
    t[13] = 60;
    const int64_t found = find_warmup(t, 4);
    EXPECT_GE(found, 1) << stream;
    moved += found > 1 ? 1 : 0;
  }
  EXPECT_LE(moved, 12);
}

TEST(Warmup, NeverBeyondTheAllowance) {
  std::vector<double> t(12);
  std::iota(t.rbegin(), t.rend(), 1.0);  // keeps getting faster
  EXPECT_GE(find_warmup(t, 4), 3);
  EXPECT_LE(find_warmup(t, 4), 4);
  EXPECT_EQ(find_warmup(t, 0), 0);
  EXPECT_EQ(find_warmup(std::vector<double>{}, 4), 0);
  EXPECT_EQ(find_warmup(std::vector<double>{1.0}, 4), 0);
}

TEST(Statistics, QuantilesInterpolate) {
  const std::vector<double> v = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(v, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(v, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(v, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(v, 0.1), 1.3);
}

// Twelve alternating values, no positive autocorrelation: P(Bin(12) < 3) = 1.9 % < 2.5 %, so the
// interval runs from the third to the tenth value.
TEST(Statistics, IntervalOfTwelveIsThirdToTenth) {
  const std::vector<double> v = {1, 12, 2, 11, 3, 10, 4, 9, 5, 8, 6, 7};
  const Summary s = summarise(v);
  EXPECT_EQ(s.count, 12);
  EXPECT_DOUBLE_EQ(s.median, 6.5);
  EXPECT_DOUBLE_EQ(s.low, 3);
  EXPECT_DOUBLE_EQ(s.high, 10);
}

// The tables of the sign test: how many values on each side an interval of 95 % leaves out.
TEST(Statistics, TailsAreThoseOfTheSignTest) {
  for (const auto& [n, rank] : {std::pair(6, 1),
                                {8, 1},
                                {9, 2},
                                {11, 2},
                                {12, 3},
                                {14, 3},
                                {15, 4},
                                {16, 4},
                                {17, 5},
                                {19, 5},
                                {20, 6},
                                {23, 7}}) {
    std::vector<double> v;  // 1, n, 2, n - 1, ...: neighbours are as different as they can be
    for (int i = 0; i < n; ++i) v.push_back(i % 2 == 0 ? 1 + i / 2 : n - i / 2);
    const Summary s = summarise(v);
    EXPECT_DOUBLE_EQ(s.low, rank) << n;
    EXPECT_DOUBLE_EQ(s.high, n + 1 - rank) << n;
  }
}

TEST(Statistics, AutocorrelationOfLagOne) {
  EXPECT_DOUBLE_EQ(autocorrelation(std::vector<double>{1, 2, 3, 4, 5}), 0.4);
  EXPECT_DOUBLE_EQ(autocorrelation(std::vector<double>{1, -1, 1, -1}), -0.75);
  EXPECT_DOUBLE_EQ(autocorrelation(std::vector<double>{5, 5, 5, 5}), 0);
  EXPECT_DOUBLE_EQ(autocorrelation(std::vector<double>{1, 2}), 0);
}

TEST(Statistics, FewStepsGiveTheWholeRange) {
  const Summary s = summarise(std::vector<double>{3, 1, 2, 1});
  EXPECT_DOUBLE_EQ(s.low, 1);
  EXPECT_DOUBLE_EQ(s.high, 3);
  EXPECT_EQ(summarise(std::vector<double>{}).count, 0);
}

// A long training run keeps up to two thousand steps.
TEST(Statistics, ManyStepsGiveANarrowInterval) {
  for (const size_t n : {1000u, 1074u, 1200u, 2000u, 20000u}) {
    std::vector<double> values;
    for (size_t i = 0; i < n; ++i)
      values.push_back(1 + static_cast<double>(i * 7919 % 10007) / 1e4);
    const Summary s = summarise(values);
    EXPECT_GT(s.low, quantile(values, 0.44)) << n;
    EXPECT_LT(s.high, quantile(values, 0.56)) << n;
  }
}

TEST(Statistics, NeighboursThatResembleEachOtherWidenTheInterval) {
  std::vector<double> v(40);
  std::iota(v.begin(), v.end(), 0.0);
  const Summary trend = summarise(v);
  std::vector<double> mixed;
  for (size_t i = 0; i < 20; ++i) mixed.insert(mixed.end(), {v[i], v[39 - i]});
  const Summary shuffled = summarise(mixed);
  EXPECT_DOUBLE_EQ(trend.median, shuffled.median);
  EXPECT_GT(trend.high - trend.low, shuffled.high - shuffled.low);
}

// However wild the times are: steps that last a thousand times longer for a while, too.
TEST(Statistics, IntervalIsAboveZeroAndAroundTheMedian) {
  for (const size_t n : {1u, 2u, 5u, 12u, 24u, 25u, 60u, 400u}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const CounterRng rng(77 + seed, n);
      std::vector<double> v;
      for (size_t i = 0; i < n; ++i) {
        const bool slow = seed % 2 == 0 && i >= n / 2;
        v.push_back((slow ? 100 : 0.1) * std::exp(2 * rng.normal(i)));
      }
      const Summary s = summarise(v);
      EXPECT_GT(s.low, 0) << n << " " << seed;
      EXPECT_LE(s.low, s.median) << n << " " << seed;
      EXPECT_LE(s.median, s.high) << n << " " << seed;
      EXPECT_TRUE(std::isfinite(s.high)) << n << " " << seed;
    }
  }
}

// The interval must cover the true median about as often as it says.
TEST(Statistics, IntervalCoversTheTrueMedian) {
  int covered = 0;
  constexpr int kTrials = 400;
  for (int i = 0; i < kTrials; ++i) {
    const Summary s = summarise(noisy(12, 1.0, 0.05, 1000 + static_cast<uint64_t>(i)));
    covered += s.low <= 1.0 && 1.0 <= s.high ? 1 : 0;
  }
  EXPECT_GE(covered, kTrials * 93 / 100);
}

// Each step resembles the one before (AR(1)), and there are too few for stretches: only the
// autocorrelation can widen the interval. Counted as independent, they cover it in 76 % of trials.
TEST(Statistics, IntervalCoversTheMedianOfStepsThatResembleTheirNeighbours) {
  int covered = 0;
  constexpr int kTrials = 400;
  for (int i = 0; i < kTrials; ++i) {
    std::vector<double> v = noisy(23, 0, 0, 0);
    const CounterRng rng(8, static_cast<uint64_t>(i));
    double state = rng.normal(1000) / std::sqrt(1 - 0.5 * 0.5);
    for (size_t s = 0; s < v.size(); ++s) {
      v[s] = 1 + 0.01 * state;
      state = 0.5 * state + rng.normal(s);
    }
    const Summary s = summarise(v);
    covered += s.low <= 1.0 && 1.0 <= s.high ? 1 : 0;
  }
  EXPECT_GE(covered, kTrials * 92 / 100) << covered;
}

// r = 0.22: 23 steps count as 14. The interval of 14 values begins at the third of them, and the
// same share of 23 is the fourth. (Of 23 independent values it would be the seventh.)
TEST(Statistics, StepsThatResembleTheirNeighboursCountAsFewer) {
  std::vector<double> v;
  for (int i = 0; i < 23; ++i) v.push_back(i * 4 % 23);
  EXPECT_NEAR(autocorrelation(v), 0.223, 5e-4);
  const Summary s = summarise(v);
  EXPECT_DOUBLE_EQ(s.low, 3);
  EXPECT_DOUBLE_EQ(s.high, 19);
}

// A neighbour on the machine comes and goes: every ten steps another level.
TEST(Statistics, IntervalKnowsDisturbancesThatLastForManySteps) {
  int covered = 0;
  constexpr int kTrials = 300;
  for (int i = 0; i < kTrials; ++i) {
    std::vector<double> v = noisy(100, 1.0, 0.01, 5000 + static_cast<uint64_t>(i));
    const std::vector<double> levels = noisy(10, 1.0, 0.01, 9000 + static_cast<uint64_t>(i));
    for (size_t s = 0; s < v.size(); ++s) v[s] += levels[s / 10] - 1.0;
    const Summary s = summarise(v);
    covered += s.low <= 1.0 && 1.0 <= s.high ? 1 : 0;
  }
  EXPECT_GE(covered, kTrials * 92 / 100);
}

TEST(Statistics, RatioFindsAPlantedSlowDownAndNoneBetweenEquals) {
  int found = 0, false_alarms = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    const std::vector<std::vector<double>> base = {noisy(20, 1.0, 0.01, 2 * i)};
    const std::vector<std::vector<double>> same = {noisy(20, 1.0, 0.01, 2 * i + 1)};
    const std::vector<std::vector<double>> slow = {noisy(20, 1.05, 0.01, 2 * i + 1)};
    found += median_ratio(base, slow).low > 1.01 ? 1 : 0;
    const Ratio r = median_ratio(base, same);
    false_alarms += r.low > 1.01 || r.high < 0.99 ? 1 : 0;
  }
  EXPECT_EQ(found, 20);
  EXPECT_EQ(false_alarms, 0);
}

// A record may hold as many as its file has room for: with 2000 draws that would take minutes.
TEST(Statistics, FewerDrawsAreEnoughForMillionsOfSteps) {
  EXPECT_EQ(bootstrap_draws(0), 2000);
  EXPECT_EQ(bootstrap_draws(25'000), 2000);
  EXPECT_EQ(bootstrap_draws(100'000), 500);
  EXPECT_EQ(bootstrap_draws(1'000'000'000), 40);
  const std::vector<std::vector<double>> a = {noisy(1'000'000, 1.0, 0.01, 1)};
  const std::vector<std::vector<double>> b = {noisy(1'000'000, 1.05, 0.01, 2)};
  const Ratio r = median_ratio(a, b);
  EXPECT_NEAR(r.value, 1.05, 1e-3);
  EXPECT_GT(r.low, 1.049);
  EXPECT_LT(r.high, 1.051);
}

TEST(Statistics, RatioKnowsThatRunsDiffer) {
  // Steps agree inside each run, runs do not: 1 against 1.1 is then no news.
  const std::vector<std::vector<double>> a = {
      {1, 1, 1, 1}, {1.2, 1.2, 1.2, 1.2}, {1.1, 1.1, 1.1, 1.1}};
  const std::vector<std::vector<double>> b = {
      {1.1, 1.1, 1.1, 1.1}, {1.3, 1.3, 1.3, 1.3}, {1.15, 1.15, 1.15, 1.15}};
  const Ratio r = median_ratio(a, b);
  EXPECT_LT(r.low, 1.0);
  EXPECT_GT(r.high, 1.1);
}

}  // namespace
}  // namespace stretto
