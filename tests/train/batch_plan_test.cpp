#include "train/batch_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "train/training.h"

namespace stretto {
namespace {

TEST(BatchPlan, FortyEightByEleven) {
  std::vector<int64_t> counts;
  for (const Share& share : batch_shares(48, 11, 1, 0)) counts.push_back(share.count);
  EXPECT_EQ(counts, (std::vector<int64_t>{11, 11, 11, 11, 4}));
}

TEST(BatchPlan, SharesCoverTheBatchOnceForEveryDp) {
  EXPECT_TRUE(rc::check("cover, disjoint, balanced", [] {
    const int64_t batch = *rc::gen::inRange<int64_t>(1, 200);
    const int64_t micro = *rc::gen::inRange<int64_t>(1, 20);
    const int64_t dp = *rc::gen::inRange<int64_t>(1, 9);
    std::vector<int> seen(static_cast<size_t>(batch), 0);
    for (int64_t rank = 0; rank < dp; ++rank) {
      const auto shares = batch_shares(batch, micro, dp, rank);
      RC_ASSERT(static_cast<int64_t>(shares.size()) == rounds(batch, micro, dp));
      for (const Share& share : shares) {
        RC_ASSERT(share.count >= 0 && share.count <= micro);
        for (int64_t i = 0; i < share.count; ++i) seen[static_cast<size_t>(share.first + i)] += 1;
      }
    }
    for (const int count : seen) RC_ASSERT(count == 1);
  }));
}

TEST(BatchPlan, RampUp) {
  Config config;
  config.global_batch = 64;
  config.train.ramp_up = {16, 16, 300};
  EXPECT_EQ(ramped_batch(config, 0), 16);
  EXPECT_EQ(ramped_batch(config, 99), 16);
  EXPECT_EQ(ramped_batch(config, 100), 32);
  EXPECT_EQ(ramped_batch(config, 299), 48);
  EXPECT_EQ(ramped_batch(config, 300), 64);
}

// The gradient of a batch does not depend on how it is cut: token-weighted, not a mean of means.
TEST(BatchPlan, RaggedMicroBatchesGiveTheSameGradient) {
  Config config = tiny_config();
  config.global_batch = 48;
  config.train.steps = 3;
  config.micro_batch = 48;
  const auto whole = train(config);
  config.micro_batch = 11;
  const auto ragged = train(config);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(ragged[i].loss, whole[i].loss, 1e-6 * whole[i].loss);
    EXPECT_NEAR(ragged[i].grad_norm, whole[i].grad_norm, 1e-5 * whole[i].grad_norm);
  }
}

TEST(BatchPlan, RampUpRuns) {
  Config config = tiny_config();
  config.train.ramp_up = {2, 2, 12};
  const auto steps = train(config);
  EXPECT_EQ(steps[0].global_batch, 2);
  EXPECT_EQ(steps.back().global_batch, 8);
  EXPECT_EQ(steps[1].consumed_samples, steps[0].global_batch + steps[1].global_batch);
}

// Losses and gradients of a ramped step are means over the tokens that it has.
TEST(BatchPlan, ARampedStepIsAStepOfThatBatch) {
  Config config = tiny_config();
  config.train.ramp_up = {2, 2, 12};
  config.train.steps = 1;
  config.train.warmup = 0;
  const StepRecord ramped = train(config).front();
  config.train.ramp_up = {};
  config.global_batch = 2;
  const StepRecord small = train(config).front();
  EXPECT_EQ(ramped.tokens, small.tokens);
  EXPECT_EQ(ramped.loss, small.loss);
  EXPECT_EQ(ramped.grad_norm, small.grad_norm);
}

}  // namespace
}  // namespace stretto
