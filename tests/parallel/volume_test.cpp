// The counters of a real training step against the closed form, exactly.
#include "parallel/volume.h"

#include <gtest/gtest.h>

#include "comm/threads.h"
#include "train/rank_plan.h"
#include "train/trainer.h"

namespace stretto {
namespace {

Config small_config() {
  Config config;
  config.model.layers = 5;
  config.model.hidden = 16;
  config.model.heads = 4;
  config.model.vocab = 101;
  config.model.positions = 8;
  config.model.ffn = 64;
  config.seq_len = 8;
  config.micro_batch = 2;
  config.global_batch = 7;  // ragged
  config.threads = 1;
  return config;
}

void expect_equal(const CommCounters& got, const CommCounters& want, const char* axis) {
  EXPECT_EQ(got.all_reduce_bytes, want.all_reduce_bytes) << axis;
  EXPECT_EQ(got.reduce_scatter_bytes, want.reduce_scatter_bytes) << axis;
  EXPECT_EQ(got.all_gather_bytes, want.all_gather_bytes) << axis;
  EXPECT_EQ(got.broadcast_bytes, want.broadcast_bytes) << axis;
  EXPECT_EQ(got.send_bytes, want.send_bytes) << axis;
}

void check_step(const Config& config) {
  run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
    Trainer trainer(config, world);
    trainer.initialise();
    trainer.step();
    std::vector<int64_t> sizes;
    for (const Share& share : batch_shares(config.global_batch, config.micro_batch,
                                           config.parallel.dp, trainer.at().dp)) {
      sizes.push_back(share.count);
    }
    const int replicas = trainer.mesh().dp() / trainer.mesh().shard_group();
    const CommVolume want = expected_volume(rank_shape(config, trainer.at()), sizes, {}, replicas);
    const MeshComms& comms = trainer.comms();
    CommCounters dp = comms.dp->counters();
    for (const Comm* part : {comms.dp_shard.get(), comms.dp_replica.get()}) {
      dp.all_reduce_bytes += part->counters().all_reduce_bytes;
      dp.reduce_scatter_bytes += part->counters().reduce_scatter_bytes;
      dp.all_gather_bytes += part->counters().all_gather_bytes;
    }
    expect_equal(dp, want.dp, "dp");
    expect_equal(comms.tp->counters(), want.tp, "tp");
    expect_equal(comms.pp->counters(), want.pp, "pp");
  });
}

TEST(Volume, DataParallelWithEveryZeroStage) {
  for (int zero = 0; zero <= 3; ++zero) {
    for (const bool deterministic : {false, true}) {
      SCOPED_TRACE(testing::Message() << "zero " << zero << " deterministic " << deterministic);
      Config config = small_config();
      config.parallel.dp = 2;
      config.parallel.zero = zero;
      config.deterministic = deterministic;
      check_step(config);
    }
  }
}

TEST(Volume, HybridSharding) {
  for (int zero = 1; zero <= 3; ++zero) {
    SCOPED_TRACE(testing::Message() << "zero " << zero);
    Config config = small_config();
    config.parallel.dp = 4;
    config.parallel.zero = zero;
    config.parallel.zero_group = 2;
    check_step(config);
  }
}

TEST(Volume, TensorParallel) {
  for (const bool cut : {false, true}) {
    for (const Checkpointing checkpointing :
         {Checkpointing::none, Checkpointing::selective, Checkpointing::full}) {
      SCOPED_TRACE(testing::Message()
                   << "cut " << cut << " checkpointing " << static_cast<int>(checkpointing));
      Config config = small_config();
      config.parallel.tp = 2;
      config.parallel.sequence_parallel = cut;
      config.activation_checkpointing = checkpointing;
      check_step(config);
    }
  }
}

TEST(Volume, BothAxes) {
  Config config = small_config();
  config.parallel.dp = 2;
  config.parallel.tp = 2;
  config.parallel.zero = 3;
  check_step(config);
}

}  // namespace
}  // namespace stretto
