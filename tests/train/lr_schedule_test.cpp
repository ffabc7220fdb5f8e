#include "train/lr_schedule.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TrainConfig settings(LrSchedule schedule) {
  TrainConfig train;
  train.steps = 100;
  train.warmup = 10;
  train.lr = 1.0;
  train.min_lr = 0.1;
  train.schedule = schedule;
  return train;
}

TEST(LearningRate, WarmUpIsLinear) {
  for (const LrSchedule s :
       {LrSchedule::constant, LrSchedule::linear, LrSchedule::cosine, LrSchedule::wsd}) {
    EXPECT_DOUBLE_EQ(learning_rate(settings(s), 1), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(settings(s), 10), 1.0);
  }
}

// A shortened run takes the steps of the whole one, as far as it gets.
TEST(LearningRate, WarmUpMayBeCutOff) {
  for (const LrSchedule s :
       {LrSchedule::constant, LrSchedule::linear, LrSchedule::cosine, LrSchedule::wsd}) {
    TrainConfig whole = settings(s);
    whole.decay = s == LrSchedule::wsd ? 20 : 0;
    TrainConfig cut = whole;
    for (cut.steps = 1; cut.steps <= cut.warmup; ++cut.steps) {
      for (int64_t step = 1; step <= cut.steps; ++step) {
        EXPECT_EQ(learning_rate(cut, step), learning_rate(whole, step)) << step;
      }
    }
  }
}

TEST(LearningRate, EndsWhereItShould) {
  EXPECT_DOUBLE_EQ(learning_rate(settings(LrSchedule::constant), 100), 1.0);
  EXPECT_NEAR(learning_rate(settings(LrSchedule::linear), 100), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(settings(LrSchedule::cosine), 100), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(settings(LrSchedule::linear), 55), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(settings(LrSchedule::cosine), 55), 0.55, 1e-12);
}

TEST(LearningRate, WarmUpStableDecay) {
  TrainConfig train = settings(LrSchedule::wsd);
  train.decay = 20;
  EXPECT_DOUBLE_EQ(learning_rate(train, 11), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(train, 80), 1.0);
  EXPECT_NEAR(learning_rate(train, 90), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(train, 100), 0.1, 1e-12);
}

// `decay` ends a schedule before the run ends: what is left is trained at the least rate.
TEST(LearningRate, StaysAtTheLeastRateAfterItsDecay) {
  for (const LrSchedule s : {LrSchedule::linear, LrSchedule::cosine}) {
    TrainConfig train = settings(s);
    train.decay = 40;
    TrainConfig whole = train;  // the same decay, over the whole run
    whole.steps = train.warmup + train.decay;
    whole.decay = 0;
    for (int64_t step = 1; step <= train.steps; ++step) {
      const double expected = step <= whole.steps ? learning_rate(whole, step) : train.min_lr;
      EXPECT_NEAR(learning_rate(train, step), expected, 1e-12) << step;
    }
  }
}

TEST(LearningRate, NeverRisesAfterTheWarmUpNorFallsBelowTheLeast) {
  for (const LrSchedule s :
       {LrSchedule::constant, LrSchedule::linear, LrSchedule::cosine, LrSchedule::wsd}) {
    for (const int64_t decay : {1, 7, 50, 90, 200}) {
      for (const int64_t warmup : {0, 10}) {
        TrainConfig train = settings(s);
        train.warmup = warmup;
        train.decay = decay;
        double before = train.lr;
        for (int64_t step = warmup + 1; step <= train.steps + 50; ++step) {
          const double now = learning_rate(train, step);
          EXPECT_LE(now, before) << step << " decay " << decay;
          EXPECT_GE(now, train.min_lr - 1e-12) << step << " decay " << decay;
          before = now;
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
