#include "train/loss_scaler.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(LossScaler, HysteresisBackOffAndGrowth) {
  LossScaler scaler({1024, 1, 3, 2}, Precision::amp_fp16);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1024);  // one overflow is tolerated
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 512);
  for (int i = 0; i < 3; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 1024);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1024);  // growth renews the tolerance
}

// Good steps count in a row: one overflow, tolerated or not, begins the count anew.
TEST(LossScaler, AnOverflowBeginsTheCountOfGoodStepsAnew) {
  for (const int64_t hysteresis : {1, 5}) {
    LossScaler scaler({1024, 1, 3, hysteresis}, Precision::amp_fp16);
    for (const int good : {2, 1, 2}) {
      for (int i = 0; i < good; ++i) scaler.update(false);
      scaler.update(true);
    }
    const double before = scaler.scale();
    EXPECT_EQ(before, hysteresis == 1 ? 128 : 1024);
    for (int i = 0; i < 2; ++i) scaler.update(false);
    EXPECT_EQ(scaler.scale(), before);
    scaler.update(false);
    EXPECT_EQ(scaler.scale(), 2 * before);
  }
}

TEST(LossScaler, TheFloorIsTriedBeforeItIsCalledStuck) {
  LossScaler scaler({4, 1, 100, 1}, Precision::amp_fp16);
  for (const double reached : {2.0, 1.0}) {
    scaler.update(true);
    EXPECT_EQ(scaler.scale(), reached);
    EXPECT_FALSE(scaler.stuck());
  }
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_TRUE(scaler.stuck());
  scaler.update(false);
  EXPECT_FALSE(scaler.stuck());
}

TEST(LossScaler, OtherPrecisionsDoNotScale) {
  LossScaler scaler({1024, 1, 1, 1}, Precision::amp_bf16);
  scaler.update(true);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 1);
}

}  // namespace
}  // namespace stretto
