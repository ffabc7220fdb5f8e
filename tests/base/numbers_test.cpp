#include "base/numbers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stretto {
namespace {

TEST(Numbers, MedianOfOddAndEvenLists) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
  EXPECT_EQ(quantile(std::vector<double>{5, 1}, 0.25), 2);
}

TEST(Numbers, QuantilesLieBetweenTheirNeighbours) {
  const std::vector<double> values = {40, 10, 30, 20};
  const std::pair<double, double> expected[] = {
      {0, 10}, {1.0 / 3, 20}, {0.5, 25}, {0.9, 37}, {1, 40}};
  for (const auto& [q, value] : expected) EXPECT_NEAR(quantile(values, q), value, 1e-12) << q;
  EXPECT_EQ(quantile(std::vector<double>{7}, 0.3), 7);
}

TEST(Numbers, CholeskySolvesWhatItCanAndRefusesTheRest) {
  const auto x = cholesky_solve({4, 2, 0, 2, 5, 1, 0, 1, 3}, {2, -4.0 / 3, 4});
  ASSERT_TRUE(x);
  EXPECT_NEAR((*x)[0], 1, 1e-14);
  EXPECT_NEAR((*x)[1], -1, 1e-14);
  EXPECT_NEAR((*x)[2], 5.0 / 3, 1e-14);
  EXPECT_FALSE(cholesky_solve({1, 2, 2, 1}, {1, 1}));  // one eigenvalue is negative
  EXPECT_FALSE(cholesky_solve({1, 1, 1, 1}, {1, 1}));  // one is zero
  EXPECT_FALSE(cholesky_solve({0}, {1}));
  EXPECT_FALSE(cholesky_solve({NAN}, {1}));
}

}  // namespace
}  // namespace stretto
