// FLOPs by formula against FLOPs that the operators of one real step added up.
#include <gtest/gtest.h>

#include "account/flops.h"
#include "comm/threads.h"
#include "train/trainer.h"
#include "train/training.h"

namespace stretto {
namespace {

double executed_flops(const Config& config) {
  double flops = 0;
  run_thread_ranks(1, [&](Comm& world) {
    Trainer trainer(config, world);
    trainer.initialise();
    trainer.backend().profile().reset();
    trainer.step();
    const Profile& profile = trainer.backend().profile();
    flops = profile.of(OpClass::matmul).flops + profile.of(OpClass::attention).flops;
  });
  return flops;
}

// The `hardware` convention promises what is executed, recomputation included.
TEST(ExecutedFlops, AreThoseOfTheHardwareConvention) {
  Config config = tiny_config();
  config.device = Device::cpu;
  const auto tokens = static_cast<double>(config.global_batch * config.seq_len);
  for (const Checkpointing mode : kCheckpointings) {
    config.activation_checkpointing = mode;
    const auto flops = flops_per_token(Convention::hardware, config.model, config.seq_len, mode);
    EXPECT_DOUBLE_EQ(executed_flops(config), flops.hardware_total() * tokens) << name_of(mode);
  }
}

}  // namespace
}  // namespace stretto
