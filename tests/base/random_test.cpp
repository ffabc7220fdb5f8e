#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/normal_pairs.h"

namespace stretto {
namespace {

TEST(NormalPairs, AreBoxMullerWhereverTheyStand) {
  double u[kNormalPairs], angle[kNormalPairs], even[kNormalPairs], odd[kNormalPairs];
  const CounterRng rng(5, 6);
  for (uint64_t i = 0; i < kNormalPairs; ++i) {
    u[i] = i == 0 ? 1.0 : i == 1 ? 0x1p-53 : 1 - static_cast<double>(rng.uniform(i));
    angle[i] = 6.283185307179586 * static_cast<double>(rng.uniform(1000 + i));
  }
  normal_pairs(even, odd, u, angle, kNormalPairs);
  for (size_t i = 0; i < kNormalPairs; ++i) {
    const double radius = std::sqrt(-2 * std::log(u[i]));
    EXPECT_NEAR(even[i], radius * std::cos(angle[i]), 1e-14 * radius);
    EXPECT_NEAR(odd[i], radius * std::sin(angle[i]), 1e-14 * radius);
    double one_u[kNormalStep] = {u[i], 1, 1, 1, 1, 1, 1, 1}, one_angle[kNormalStep] = {angle[i]};
    double e[kNormalStep], o[kNormalStep];
    normal_pairs(e, o, one_u, one_angle, 1);
    EXPECT_EQ(e[0], even[i]);
    EXPECT_EQ(o[0], odd[i]);
  }
}

TEST(CounterRng, NormalHasItsMoments) {
  const CounterRng rng(42, stream_of("weights"));
  const int n = 200000;
  double sum = 0, squares = 0, fourths = 0;
  for (int i = 0; i < n; ++i) {
    const double x = rng.normal(static_cast<uint64_t>(i));
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourths / n, 3, 5 * std::sqrt(96.0 / n));
}

TEST(CounterRng, FillEqualsElementByElement) {
  const CounterRng rng(7, 3);
  for (const uint64_t begin : {0u, 1u, 6u, 11u}) {
    for (const size_t count : {0u, 1u, 2u, 5u, 8u, 127u, 128u, 129u, 300u}) {
      std::vector<float> out(count);
      rng.fill_normal(out.data(), begin, count, 2.0f);
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(out[i], 2.0f * rng.normal(begin + i));
    }
  }
}

TEST(CounterRng, StreamsAndSeedsDiffer) {
  EXPECT_NE(CounterRng(1, 2).bits(0), CounterRng(1, 3).bits(0));
  EXPECT_NE(CounterRng(1, 2).bits(0), CounterRng(2, 2).bits(0));
  EXPECT_EQ(CounterRng(1, 2).bits(7), CounterRng(1, 2).bits(7));
}

TEST(Permute, IsAPermutationOfEverySize) {
  for (const uint64_t size : {1u, 2u, 3u, 7u, 64u, 100u, 1000u, 4097u}) {
    std::vector<int> seen(size, 0);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t j = permute(i, size, 9, 1);
      ASSERT_LT(j, size);
      seen[j] += 1;
    }
    for (const int count : seen) EXPECT_EQ(count, 1) << size;
  }
}

TEST(Permute, EpochsDiffer) {
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i) same += permute(i, 1000, 9, 1) == permute(i, 1000, 9, 2);
  EXPECT_LT(same, 20);
}

}  // namespace
}  // namespace stretto
