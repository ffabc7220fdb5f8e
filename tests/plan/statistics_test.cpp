#include "plan/statistics.h"

#include <gtest/gtest.h>

namespace stretto::plan {
namespace {

using Values = std::vector<double>;

TEST(Statistics, TiesShareTheirMeanRank) {
  EXPECT_EQ(ranks_of({30, 10, 20}), (Values{2, 0, 1}));
  EXPECT_EQ(ranks_of({5, 1, 5, 9, 5}), (Values{2, 0, 2, 4, 2}));
  EXPECT_EQ(ranks_of({7, 7}), (Values{0.5, 0.5}));
}

TEST(Statistics, CorrelationIsOfTheOrderAlone) {
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {1, 10, 100, 1000}), 1);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {9, 8, 7, -100}), -1);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3}, {1, 1, 1}), 0);  // says nothing
  EXPECT_NEAR(spearman({1, 2, 3, 4}, {1, 1, 2, 2}), 2 / std::sqrt(5), 1e-12);
  EXPECT_NEAR(correlation({1, 2, 4}, {2, 1, 3}), 6 / std::sqrt(84), 1e-12);
}

TEST(Statistics, NothingHasNoQuantile) {
  EXPECT_EQ(quantile({}, 0.9), 0);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.9), 3.7);
}

}  // namespace
}  // namespace stretto::plan
