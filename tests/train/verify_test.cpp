#include "train/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "train/training.h"

namespace stretto {
namespace {

bool has(const std::vector<VerifyCase>& cases, const std::string& name) {
  return std::any_of(cases.begin(), cases.end(), [&](const auto& c) { return c.name == name; });
}

TEST(Verify, GridHoldsWhatFitsTheModel) {
  Config config = tiny_config();
  EXPECT_TRUE(has(verify_grid(config, 4, 3), "tp4"));
  EXPECT_TRUE(has(verify_grid(config, 4, 3), "pp4, zero_bubble"));
  EXPECT_TRUE(has(verify_grid(config, 8, 3), "dp2 x tp2 x pp2"));
  EXPECT_FALSE(has(verify_grid(config, 2, 3), "tp4"));
  config.model.heads = 2;
  config.model.layers = 2;
  const auto small = verify_grid(config, 4, 3);
  EXPECT_FALSE(has(small, "tp4"));
  EXPECT_FALSE(has(small, "pp4"));
  EXPECT_TRUE(has(small, "tp2 x pp2"));
}

TEST(Verify, TwoRanksTrainTheSameModel) {
  const auto rows = run_verify(verify_grid(tiny_config(), 2, 4));
  EXPECT_GT(rows.size(), 12u);
  for (const VerifyRow& row : rows) {
    EXPECT_TRUE(row.passed()) << row.name << ": loss " << row.max_loss_difference() << ", norm "
                              << row.max_norm_difference() << " " << row.error;
    EXPECT_EQ(row.loss_differences.size(), 4u);
  }
}

TEST(Verify, AnotherModelIsFound) {
  auto cases = verify_grid(tiny_config(), 1, 4);
  ASSERT_GE(cases.size(), 3u);
  cases[2].config.train.lr *= 1.001;
  const auto rows = run_verify(cases);
  EXPECT_FALSE(rows[0].passed());
  EXPECT_EQ(rows[0].loss_differences[0], 0);
  EXPECT_GT(rows[0].max_loss_difference(), 0);
}

}  // namespace
}  // namespace stretto
