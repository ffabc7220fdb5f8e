// What a step says of itself, and what it does to the weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/host_values.h"
#include "train/lr_schedule.h"
#include "train/training.h"

namespace stretto {
namespace {

std::vector<float> weights_of(Trainer& trainer) {
  return host_values(trainer.backend(), trainer.gpt().memory().at("weights"));
}

double largest_change(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return most;
}

// Adam's first update moves a weight by the learning rate, whatever its gradient. Steps that are
// skipped before it are no updates: neither the schedule nor Adam's corrections may count them.
TEST(Step, FirstUpdateMovesWeightsByTheRateOfTheFirstUpdate) {
  for (const bool overflows : {false, true}) {
    Config config = tiny_config();
    config.train.weight_decay = 0;
    config.train.warmup = 4;
    config.train.steps = 20;
    if (overflows) {
      config.precision = Precision::amp_fp16;
      config.train.loss_scale = {0x1p40, 1, 1000, 1};
    }
    run_thread_ranks(1, [&](Comm& world) {
      Trainer trainer(config, world);
      trainer.initialise();
      const auto state = [&] {
        return overflows ? host_values(trainer.backend(), trainer.optimizer().state("master"))
                         : weights_of(trainer);
      };
      std::vector<float> before = state();
      StepRecord record = trainer.step();
      EXPECT_EQ(record.skipped, overflows);
      while (record.skipped && record.step < config.train.steps) {
        EXPECT_EQ(record.learning_rate, learning_rate(config.train, 1)) << record.step;
        EXPECT_EQ(state(), before);
        record = trainer.step();
      }
      ASSERT_EQ(record.updates, 1);
      EXPECT_EQ(record.learning_rate, config.train.lr / 4);
      EXPECT_NEAR(largest_change(state(), before) / record.learning_rate, 1, 1e-3);
      for (int64_t update = 2; update <= 6; ++update) {
        EXPECT_EQ(trainer.step().learning_rate, learning_rate(config.train, update));
      }
    });
  }
}

// Weights that are only kept in bf16 are rounded at random, by the seed of the run.
TEST(Step, RandomRoundingFollowsTheSeed) {
  const auto updated = [](uint64_t seed) {
    Config config = tiny_config();
    config.precision = Precision::bf16;
    config.seed = seed;
    std::vector<float> values;
    run_thread_ranks(1, [&](Comm& world) {
      Trainer trainer(config, world);
      RankMemory& memory = trainer.gpt().memory();
      const auto fill = [&](const char* name, float value) {
        const Tensor t = memory.at(name);
        const std::vector<float> all(static_cast<size_t>(t.count()), value);
        assign_host_values(trainer.backend(), t, all.data());
      };
      fill("weights", 1);
      fill("grads", 1);
      trainer.optimizer().step(1e-3, 1, 1);
      values = weights_of(trainer);
    });
    return values;
  };
  const std::vector<float> one = updated(1);
  EXPECT_EQ(updated(1), one);
  EXPECT_NE(updated(2), one);
}

}  // namespace
}  // namespace stretto
