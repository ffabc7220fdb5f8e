// The counters of a real training step against the closed form, exactly.
#include "parallel/volume.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "comm/threads.h"
#include "config/rules.h"
#include "train/rank_plan.h"
#include "train/trainer.h"
#include "train/verify.h"

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
    const StepRecord record = trainer.step();
    std::vector<int64_t> sizes;
    for (const Share& share : batch_shares(config.global_batch, config.micro_batch,
                                           config.parallel.dp, trainer.at().dp)) {
      sizes.push_back(share.count);
    }
    const Mesh& mesh = trainer.mesh();
    const CommVolume want =
        expected_volume(rank_shape(trainer.config(), trainer.at()), sizes,
                        {mesh.pp(), trainer.at().pp}, mesh.dp() / mesh.shard_group());
    const MeshComms& comms = trainer.comms();
    CommCounters dp = comms.dp->counters();
    for (const Comm* part : {comms.dp_shard.get(), comms.dp_replica.get()}) {
      dp.all_reduce_bytes += part->counters().all_reduce_bytes;
      dp.reduce_scatter_bytes += part->counters().reduce_scatter_bytes;
      dp.all_gather_bytes += part->counters().all_gather_bytes;
    }
    const CommCounters ends = comms.embedding ? comms.embedding->counters() : CommCounters{};
    SCOPED_TRACE(testing::Message() << "rank " << world.rank() << " of " << mesh.text());
    expect_equal(dp, want.dp, "dp");
    expect_equal(comms.tp->counters(), want.tp, "tp");
    expect_equal(comms.pp->counters(), want.pp, "pp");
    expect_equal(ends, want.embedding, "embedding");
    // What metrics say is the same.
    EXPECT_EQ(record.comm_dp.bytes(), want.dp.bytes());
    EXPECT_EQ(record.comm_tp.bytes(), want.tp.bytes());
    EXPECT_EQ(record.comm_pp.bytes(), want.pp.bytes() + want.embedding.bytes());
  });
}

// All of what `stretto verify` runs.
TEST(Volume, EveryTopologyOfTheGrid) {
  Config config = small_config();
  config.global_batch = 8;
  int topologies = 0;
  for (const VerifyCase& one : verify_grid(config, 8, 1)) {
    SCOPED_TRACE(one.name);
    check_step(one.config);
    ++topologies;
  }
  EXPECT_GE(topologies, 40);
}

// And combinations that nobody listed.
RC_GTEST_PROP(Volume, AnyTopology, ()) {
  const auto pick = [](auto... values) { return *rc::gen::element(values...); };
  Config config = small_config();
  ParallelConfig& p = config.parallel;
  p.dp = pick(1, 2, 3);
  p.tp = pick(1, 2);
  p.pp = pick(1, 2, 3);
  p.zero = pick(0, 1, 2, 3);
  p.sequence_parallel = pick(false, true);
  p.schedule =
      pick(PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe, PipelineSchedule::interleaved,
           PipelineSchedule::zero_bubble, PipelineSchedule::eager_one_f_one_b);
  if (p.schedule == PipelineSchedule::interleaved) p.interleave = 2;
  config.model.layers = pick(3, 6);
  config.model.tied_embedding = pick(false, true);
  config.precision = pick(Precision::fp32, Precision::amp_bf16);
  config.activation_checkpointing =
      pick(Checkpointing::none, Checkpointing::selective, Checkpointing::full);
  config.deterministic = pick(false, true);
  p.reduce_dtype = pick(DType::f32, DType::bf16);
  config.micro_batch = pick(1, 2, 3);
  config.global_batch = *rc::gen::inRange(4, 13);
  for (const Finding& finding : check_config(config)) {
    RC_PRE(finding.severity != Severity::error);
  }
  check_step(config);
  RC_ASSERT(!testing::Test::HasFailure());
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
    for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::gelu,
                                              Checkpointing::selective, Checkpointing::full}) {
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
