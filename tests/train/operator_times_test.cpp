// A step's time by operator is its time by class, spelled out.
#include <gtest/gtest.h>

#include "train/training.h"

namespace stretto {
namespace {

TEST(OperatorTimes, AddUpToThoseOfTheirClasses) {
  Config config = tiny_config();
  config.train.steps = 2;
  config.device = Device::cpu;  // on GPUs operators are timed one by one in few steps only
  for (const StepRecord& step : train(config)) {
    std::array<double, kOpClasses> seconds{};
    for (int op = 0; op < kOps; ++op) {
      const OpTotals& one = step.operators[static_cast<size_t>(op)];
      seconds[static_cast<size_t>(class_of(static_cast<Op>(op)))] += one.seconds;
    }
    for (int c = 0; c < kOpClasses; ++c) {
      EXPECT_NEAR(seconds[static_cast<size_t>(c)], step.times.ops[static_cast<size_t>(c)], 1e-9)
          << name_of(static_cast<OpClass>(c));
    }
    for (const Op op : {Op::embedding_forward, Op::embedding_backward, Op::linear_forward,
                        Op::attention_backward, Op::adamw}) {
      EXPECT_GT(step.operators[static_cast<size_t>(op)].calls, 0u) << name_of(op);
    }
  }
}

}  // namespace
}  // namespace stretto
