// A single flipped bit in one copy is found, and rank and tensor are named.
#include "train/audit.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "train/run.h"
#include "train/training.h"

namespace stretto {
namespace {

Config topology(int dp, int tp, int pp, int zero) {
  Config config = tiny_config();
  config.parallel.dp = dp;
  config.parallel.tp = tp;
  config.parallel.pp = pp;
  config.parallel.zero = zero;
  return config;
}

// The first element of a parameter that this rank stores, in buffers that are sharded or not.
int64_t first_stored(Trainer& trainer, const std::string& name, bool sharded) {
  const FlatLayout& layout = trainer.gpt().layout();
  for (const FlatUnit& unit : layout.units) {
    for (const FlatParameter& parameter : unit.parameters) {
      if (parameter.spec.name != name) continue;
      if (!sharded) return parameter.offset;
      const FlatRange range = {parameter.offset, parameter.offset + parameter.count};
      return owned_stretches(unit, range, layout.dp, trainer.gpt().comms().dp->rank())
          .at(0)
          .shard_begin;
    }
  }
  throw std::out_of_range(name);
}

void flip(Trainer& trainer, const std::string& name) {
  auto* weights = trainer.gpt().memory().at("weights").as<uint32_t>();
  // A step does not round it away.
  weights[first_stored(trainer, name, trainer.config().parallel.zero >= 3)] ^= 1 << 16;
}

using Flip = std::function<void(Trainer&, const std::string& name)>;

// Flips a bit of the optimizer's state.
Flip flip_state(const char* state) {
  return [=](Trainer& trainer, const std::string& name) {
    const int64_t at = first_stored(trainer, name, trainer.config().parallel.zero >= 1);
    static_cast<char*>(trainer.optimizer().state(state).slice(at, at + 1).data())[0] ^= 1;
  };
}

void train_and_flip(const Config& config, int rank, const std::string& name,
                    const Flip& flip_one = flip) {
  run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
    Trainer trainer(config, world);
    trainer.initialise();
    trainer.step();
    audit_replicas(trainer);  // all is well so far
    if (world.rank() == rank) flip_one(trainer, name);
    audit_replicas(trainer);
  });
}

TEST(Audit, NamesTheDataParallelRankThatDiffers) {
  for (const int zero : {0, 1, 2}) {
    EXPECT_ERROR(train_and_flip(topology(3, 1, 1, zero), 2, "h.1.mlp.up.weight"),
                 ExitCode::internal,
                 "h.1.mlp.up.weight of rank 2 differs from the copies of ranks 0, 1");
  }
}

TEST(Audit, ComparesTheOptimizersState) {
  Config config = topology(3, 1, 1, 0);
  config.precision = Precision::amp_bf16;
  for (const char* state : {"master", "m", "v"}) {
    EXPECT_ERROR(train_and_flip(config, 1, "h.1.mlp.up.weight", flip_state(state)),
                 ExitCode::internal,
                 fmt::format("optimizer.{}.h.1.mlp.up.weight of rank 1 differs from", state));
  }
}

TEST(Audit, NamesBothWhereTwoCopiesDiffer) {
  EXPECT_ERROR(train_and_flip(topology(2, 1, 1, 0), 1, "wpe"), ExitCode::internal,
               "ranks 0, 1 hold different copies of wpe");
}

TEST(Audit, ComparesWhatTensorParallelRanksReplicate) {
  EXPECT_ERROR(train_and_flip(topology(1, 4, 1, 0), 3, "h.2.ln1.weight"), ExitCode::internal,
               "h.2.ln1.weight of rank 3 differs from the copies of ranks 0, 1, 2 (over tp");
  EXPECT_ERROR(train_and_flip(topology(1, 4, 1, 0), 0, "h.0.mlp.down.bias"), ExitCode::internal,
               "h.0.mlp.down.bias of rank 0 differs");
  EXPECT_ERROR(train_and_flip(topology(2, 2, 1, 3), 1, "h.0.ln1.weight"), ExitCode::internal,
               "ranks 0, 1 hold different copies of h.0.ln1.weight (over tp");
}

TEST(Audit, ComparesTheTiedTableOverThePipelineEnds) {
  EXPECT_ERROR(train_and_flip(topology(1, 1, 3, 0), 2, "wte"), ExitCode::internal,
               "ranks 0, 2 hold different copies of wte (over pipeline ends");
}

TEST(Audit, ComparesTheSamePartOfSeveralCopies) {
  Config config = topology(6, 1, 1, 3);
  config.parallel.zero_group = 2;
  EXPECT_ERROR(
      train_and_flip(config, 2, "h.0.attn.qkv.weight"), ExitCode::internal,
      "h.0.attn.qkv.weight of rank 2 differs from the copies of ranks 0, 4 (over dp_replica");
}

TEST(Audit, ComparesTheSamePartOfTheOptimizersState) {
  for (const int zero : {1, 2, 3}) {
    Config config = topology(6, 1, 1, zero);
    config.precision = Precision::amp_bf16;
    config.parallel.zero_group = 2;
    for (const char* state : {"master", "m", "v"}) {
      EXPECT_ERROR(train_and_flip(config, 2, "h.0.attn.qkv.weight", flip_state(state)),
                   ExitCode::internal,
                   fmt::format("optimizer.{}.h.0.attn.qkv.weight of rank 2 differs from the copies "
                               "of ranks 0, 4 (over dp_replica",
                               state));
    }
  }
}

// Ranks that differ in tp or are the ends of a pipeline hold the same part, however it is sharded.
TEST(Audit, ComparesShardedStateOverTheOtherAxes) {
  for (const int zero : {1, 2, 3}) {
    EXPECT_ERROR(train_and_flip(topology(2, 2, 1, zero), 1, "h.0.ln1.weight", flip_state("m")),
                 ExitCode::internal,
                 "ranks 0, 1 hold different copies of optimizer.m.h.0.ln1.weight (over tp");
    EXPECT_ERROR(train_and_flip(topology(2, 1, 2, zero), 2, "wte", flip_state("v")),
                 ExitCode::internal,
                 "ranks 0, 2 hold different copies of optimizer.v.wte (over pipeline ends");
  }
}

TEST(Audit, RunStopsAtTheAuditInterval) {
  Config config = topology(2, 1, 1, 0);
  config.train.audit_every = 2;
  EXPECT_EQ(train(config).size(), 6u);
  // A bit that is flipped after step 3 is found after step 4.
  const auto run = [&](Comm& world) {
    Trainer* mine = nullptr;
    RunOptions options;
    options.print = false;
    options.on_start = [&](Trainer& trainer) { mine = &trainer; };
    options.on_step = [&](const StepRecord& record) {
      if (record.step == 3 && world.rank() == 1) flip(*mine, "h.1.mlp.up.weight");
    };
    run_training(config, world, options);
  };
  EXPECT_ERROR(run_thread_ranks(2, run), ExitCode::internal,
               "replica audit after step 4: ranks 0, 1 hold different copies of h.1.mlp.up.weight");
}

// What an audit reads is time lost to training.
TEST(Audit, ReadsOnlyWhatSeveralRanksHold) {
  const auto bytes_read = [](const Config& config) {
    double bytes = 0;
    run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
      Trainer trainer(config, world);
      trainer.initialise();
      trainer.backend().profile().reset();
      audit_replicas(trainer);
      if (world.rank() == 0) bytes = trainer.backend().profile().of(Op::copy).bytes;
    });
    return bytes;
  };
  EXPECT_EQ(bytes_read(topology(1, 1, 1, 0)), 0);
  EXPECT_EQ(bytes_read(topology(2, 1, 1, 3)), 0);
  const auto parameters = static_cast<double>(parameter_count(tiny_config().model));
  EXPECT_GE(bytes_read(topology(2, 1, 1, 0)), 3 * 4 * parameters);  // weights, m and v in f32
  const double replicated = bytes_read(topology(1, 2, 1, 0));
  EXPECT_GT(replicated, 0);
  EXPECT_LT(replicated, 0.5 * 3 * 4 * parameters);
}

TEST(Audit, TheMostFrequentCopyIsRight) {
  EXPECT_EQ(odd_ones({7, 7, 7}), std::vector<int>());
  EXPECT_EQ(odd_ones({7, 8, 7}), std::vector<int>({1}));
  EXPECT_EQ(odd_ones({8, 7, 7, 9}), std::vector<int>({0, 3}));
  EXPECT_EQ(odd_ones({7, 7, 8, 8}), std::vector<int>({0, 1, 2, 3}));
  EXPECT_EQ(odd_ones({1, 2}), std::vector<int>({0, 1}));
  EXPECT_EQ(odd_ones({5}), std::vector<int>());
}

}  // namespace
}  // namespace stretto
