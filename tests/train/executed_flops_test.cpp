// FLOPs by formula against FLOPs that the operators of one real step added up.
#include <gtest/gtest.h>

#include <mutex>

#include "account/flops.h"
#include "comm/threads.h"
#include "train/rank_plan.h"
#include "train/trainer.h"
#include "train/training.h"

namespace stretto {
namespace {

double executed_flops(const Config& config) {
  double flops = 0;
  std::mutex adding;
  run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
    Trainer trainer(config, world);
    trainer.initialise();
    trainer.backend().profile().reset();
    trainer.step();
    const Profile& profile = trainer.backend().profile();
    const std::lock_guard lock(adding);
    flops += profile.of(OpClass::matmul).flops + profile.of(OpClass::attention).flops;
  });
  return flops;
}

// The `hardware` convention promises what is executed, recomputation included.
TEST(ExecutedFlops, AreThoseOfTheHardwareConvention) {
  Config config = tiny_config();
  config.device = Device::cpu;
  config.model.vocab = 64;  // what pads a vocabulary is executed and not counted
  const auto tokens = static_cast<double>(config.global_batch * config.seq_len);
  for (const PipelineSchedule schedule :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::zero_bubble}) {
    config.parallel.schedule = schedule;
    for (const int64_t pp : {1, 2}) {
      config.parallel.pp = pp;
      for (const Checkpointing mode : kCheckpointings) {
        config.activation_checkpointing = mode;
        const auto flops = flops_per_token(Convention::hardware, config.model, config.seq_len, mode,
                                           run_cut(config));
        EXPECT_DOUBLE_EQ(executed_flops(config), flops.hardware_total() * tokens)
            << name_of(mode) << " " << name_of(schedule) << " pp" << pp;
      }
    }
  }
}

}  // namespace
}  // namespace stretto
