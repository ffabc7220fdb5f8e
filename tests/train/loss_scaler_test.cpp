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

TEST(LossScaler, StopsAtItsFloor) {
  LossScaler scaler({4, 1, 100, 1}, Precision::amp_fp16);
  for (int i = 0; i < 10; ++i) scaler.update(true);
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_TRUE(scaler.at_floor());
}

TEST(LossScaler, OtherPrecisionsDoNotScale) {
  LossScaler scaler({1024, 1, 1, 1}, Precision::amp_bf16);
  scaler.update(true);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 1);
}

}  // namespace
}  // namespace stretto
