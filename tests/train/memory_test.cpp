// The plan is what is used, nothing is allocated inside a step, and checkpointing saves what it
// says.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <new>

#include "support/expect_error.h"
#include "train/checkpoint.h"
#include "train/launch.h"
#include "train/rank_plan.h"
#include "train/training.h"
#include "train/verify.h"

namespace {
std::atomic<int64_t> g_allocations{0};
}

// Counts every allocation of this program.
void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes);
}
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace stretto {
namespace {

TEST(Memory, PlanEqualsUse) {
  for (const Checkpointing mode :
       {Checkpointing::none, Checkpointing::gelu, Checkpointing::selective, Checkpointing::full}) {
    Config config = tiny_config();
    config.activation_checkpointing = mode;
    run_thread_ranks(1, [&](Comm& world) {
      Trainer trainer(config, world);
      const size_t predicted = memory_totals(memory_plan(rank_shape(config, {}))).total;
      EXPECT_EQ(trainer.gpt().memory().used_bytes(), predicted);
    });
  }
}

// Widths at which the gradients of attention and of the MLP are almost, or exactly, of one size.
TEST(Memory, EveryFeedForwardWidthFits) {
  Config config = tiny_config();
  config.train.steps = 1;
  config.train.warmup = 0;
  const int64_t same = 3 * config.model.hidden;
  for (const int64_t ffn : {int64_t{2}, same - 2, same - 1, same, same + 1, same + 2}) {
    config.model.ffn = ffn;
    EXPECT_NO_THROW(train(config)) << ffn;
  }
}

// Logits and a layer's gradients are never in use at once, so the larger shares its memory.
TEST(Memory, LogitsAndGradientsOfALayerShare) {
  const auto term = [](const RankShape& shape, MemoryTerm which) {
    return memory_totals(memory_plan(shape)).by_term[static_cast<int>(which)];
  };
  const auto spec = [](const RankShape& shape, const char* label) {
    for (const TensorSpec& one : memory_plan(shape)) {
      if (one.label == label) return one;
    }
    throw Error(ExitCode::internal, label);
  };
  Config config = tiny_config();
  config.model.vocab = 500;
  for (const int64_t ffn : {32, 128, 1024}) {
    config.model.ffn = ffn;
    const RankShape shape = rank_shape(config, {});
    const size_t logits = spec(shape, "loss.logits").bytes();
    const size_t gradients =
        std::max(spec(shape, "grad.dpre").bytes(), spec(shape, "grad.dqkv").bytes());
    RankShape split = shape;  // keeps its gradients for later
    split.split_backward = true;
    EXPECT_GE(term(split, MemoryTerm::logits), logits);
    const bool fits = logits <= gradients;
    EXPECT_EQ(fits, ffn == 1024);
    EXPECT_EQ(term(shape, MemoryTerm::logits) >= logits, !fits);
    EXPECT_EQ(spec(shape, "loss.logits").over.empty(), !fits);
  }
}

// Smaller chunks of logits: less memory, the same loss but for the order of sums.
TEST(Memory, ChunksOfLogitsAreASetting) {
  Config config = tiny_config();
  config.model.vocab = 997;
  const std::vector<double> whole = losses(config);
  const size_t planned = memory_totals(memory_plan(rank_shape(config, {}))).total;
  config.logits_chunk = 8 * 1000 * 4;  // eight rows, with padding
  EXPECT_EQ(rank_shape(config, {}).loss_rows(), 8);
  EXPECT_LT(memory_totals(memory_plan(rank_shape(config, {}))).total, planned);
  const std::vector<double> pieces = losses(config);
  ASSERT_EQ(pieces.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(pieces[i], whole[i], 1e-5 * whole[i]);
}

// Large chunks are whole tiles of a GPU's product, small ones of a CPU's; none is larger than asked
// for by more than its last tile.
TEST(Memory, ChunksOfLogitsAreWholeTiles) {
  RankShape shape = rank_shape(tiny_config(), {});
  shape.model.vocab = 250880;
  shape.seq_len = 8192;
  shape.micro_batch = 1;
  for (const int64_t rows : {5, 100, 1500, 2731, 3000, 8192, 9000}) {
    shape.loss_chunk_bytes =
        rows * 250880 * static_cast<int64_t>(dtype_size(shape.types().compute));
    const int64_t chunk = shape.loss_rows(), tile = chunk >= 2048 ? 256 : chunk >= 64 ? 64 : 1;
    EXPECT_EQ(chunk % tile, 0) << rows;
    EXPECT_LE(chunk, rows + tile - 1) << rows;
    EXPECT_GE(chunk * ((8192 + rows - 1) / rows), 8192) << rows;
  }
}

// Every rank of every topology, to the byte.
TEST(Memory, PlanEqualsUseOnEveryRank) {
  Config base = tiny_config();
  base.model.layers = 5;
  base.train.warmup = 0;
  const std::vector<VerifyCase> cases = verify_grid(base, 8, 1);
  EXPECT_GT(cases.size(), 20u);
  for (const VerifyCase& one : cases) {
    SCOPED_TRACE(one.name);
    run_thread_ranks(static_cast<int>(one.config.world_size()), [&](Comm& world) {
      Trainer trainer(one.config, world);
      trainer.initialise();
      trainer.step();
      const RankShape shape = rank_shape(trainer.config(), trainer.at());
      EXPECT_EQ(trainer.gpt().memory().used_bytes(), memory_totals(memory_plan(shape)).total);
    });
  }
}

// Sharded over four ranks, a rank holds at most 30 % of weights, gradients and optimizer state. The
// model must be deep enough that two gathered layers do not count for much.
TEST(Memory, FullShardingHoldsAQuarter) {
  Config config = tiny_config();
  config.model = {"deep", 48, 64, 4, 256, 64, 256};
  const auto state = [&] {
    const MemoryTotals totals = memory_totals(memory_plan(rank_shape(config, {})));
    return totals.by_term[static_cast<int>(MemoryTerm::weights)] +
           totals.by_term[static_cast<int>(MemoryTerm::gradients)] +
           totals.by_term[static_cast<int>(MemoryTerm::optimizer)];
  };
  const size_t whole = state();
  config.parallel.dp = 4;
  config.parallel.zero = 3;
  EXPECT_LE(static_cast<double>(state()), 0.30 * static_cast<double>(whole));
}

TEST(Memory, StepsDoNotAllocate) {
  for (const Checkpointing mode :
       {Checkpointing::none, Checkpointing::gelu, Checkpointing::selective, Checkpointing::full}) {
    for (const int64_t threads : {1, 2}) {
      Config config = tiny_config();
      config.activation_checkpointing = mode;
      config.threads = threads;
      const auto world = make_self_comm("world");
      Trainer trainer(config, *world);
      trainer.initialise();
      trainer.step();
      const int64_t before = g_allocations.load();
      for (int i = 0; i < 3; ++i) trainer.step();
      EXPECT_EQ(g_allocations.load() - before, 0) << name_of(mode) << ", threads " << threads;
    }
  }
}

// Working memory of the operators is in the plan: they never take more, and little is left over.
TEST(Memory, WorkspaceIsPlanned) {
  Config odd = tiny_config();
  odd.model = {"odd", 2, 66, 3, 127, 37, 7 * 66};
  odd.seq_len = 37;
  odd.micro_batch = 3;
  odd.global_batch = 7;
  Config sharded = tiny_config();
  sharded.parallel.tp = 2;
  for (const Config& base : {tiny_config(), odd, sharded}) {
    for (const Precision precision : {Precision::fp32, Precision::amp_bf16, Precision::bf16}) {
      for (const int64_t threads : {1, 3}) {
        Config config = base;
        config.precision = precision;
        config.threads = threads;
        run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
          Trainer trainer(config, world);
          trainer.initialise();
          trainer.step();
          EXPECT_EQ(trainer.backend().workspace_use().beyond, 0U)
              << config.model.name << " " << name_of(precision) << " threads " << threads;
        });
      }
    }
  }
}

int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != key + ":") continue;
    int64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

// What the process really holds at its peak is the plan, within 5 %, plus a constant: the program
// and its libraries as they are before training (CUDA's alone are 120 MB), and threads' stacks.
TEST(Memory, ProcessHoldsThePlan) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers keep memory of their own beside every byte";
#endif
  Config config = tiny_config();
  config.model = {"middle", 6, 384, 6, 4096, 256, 4 * 384};
  config.seq_len = 256;
  config.micro_batch = 4;
  config.global_batch = 4;
  config.threads = 2;
  constexpr int64_t kStacks = int64_t{16} << 20;
  const auto world = make_self_comm("world");
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak counts from here on
  const int64_t before = status_bytes("VmRSS");
  Trainer trainer(config, *world);
  trainer.initialise();
  trainer.step();
  trainer.step();
  const auto plan = static_cast<int64_t>(trainer.gpt().memory().planned_bytes());
  const int64_t peak = status_bytes("VmHWM");
  EXPECT_GT(peak, plan);
  EXPECT_LT(peak, before + plan + plan / 20 + kStacks) << "plan " << plan << ", before " << before;
  // And the plan is what operators use, within 1 %.
  const RankShape shape = rank_shape(config, {});
  const int64_t workspace =
      shape.workspace.shared + shape.workspace.worker * shape.workspace.workers;
  const auto used = static_cast<int64_t>(trainer.backend().workspace_use().used);
  EXPECT_LE(used, workspace);
  EXPECT_LT(workspace - used, plan / 100) << workspace << " " << used;
}

// How far ranks run ahead of each other differs from step to step, and with it how many operations
// are open at once; so now and then a step takes a slab of handles more. Without recycling it would
// be dozens of allocations in every step.
TEST(Memory, StepsOfThreadRanksRecycle) {
  constexpr int64_t kSteps = 20;
  Config zero1 = tiny_config(), zero3 = tiny_config(), tensor = tiny_config(),
         stages = tiny_config();
  for (Config* config : {&zero1, &zero3}) config->parallel.dp = 2;
  zero1.parallel.zero = 1;
  zero3.parallel.zero = 3;
  tensor.parallel.tp = 2;
  stages.parallel.pp = 2;
  for (const Config& config : {zero1, zero3, tensor, stages}) {
    run_thread_ranks(2, [&](Comm& world) {
      Trainer trainer(config, world);
      trainer.initialise();
      for (int i = 0; i < 5; ++i) trainer.step();
      world.barrier();
      const int64_t before = g_allocations.load();
      world.barrier();
      for (int64_t i = 0; i < kSteps; ++i) trainer.step();
      world.barrier();
      EXPECT_LT(g_allocations.load() - before, kSteps);
      world.barrier();
    });
  }
}

TEST(Memory, CheckpointingSavesActivations) {
  Config config = tiny_config();
  auto activations = [&](Checkpointing mode) {
    config.activation_checkpointing = mode;
    const MemoryTotals totals = memory_totals(memory_plan(rank_shape(config, {})));
    return totals.by_term[static_cast<int>(MemoryTerm::activations)];
  };
  const size_t none = activations(Checkpointing::none);
  const size_t gelu = activations(Checkpointing::gelu);
  const size_t selective = activations(Checkpointing::selective);
  const size_t full = activations(Checkpointing::full);
  EXPECT_LT(gelu, none);
  EXPECT_LT(selective, gelu);
  EXPECT_LT(full, selective);
}

TEST(Memory, TooLargePlansSayWhatFits) {
  Config config = tiny_config();
  config.micro_batch = 8;
  Config small = config;
  small.micro_batch = 2;
  const size_t budget = memory_totals(memory_plan(rank_shape(small, {}))).total;
  try {
    require_fits(config, budget);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
    EXPECT_NE(error.hint().find("micro_batch=2 fits"), std::string::npos) << error.hint();
  }
  EXPECT_EQ(largest_micro_batch(config, budget), 2);
}

// More sequences than the grid of an attention kernel has places would fit a large card.
TEST(Memory, AGpuTakesSoManySequencesAtOnce) {
  Config config =
      load_config({"tiny-10m", "seq_len=2", "global_batch=200000", "device=cuda"}).config;
  EXPECT_EQ(largest_micro_batch(config, size_t{1} << 50), 65535);
  config.device = Device::cpu;
  EXPECT_EQ(largest_micro_batch(config, size_t{1} << 50), 200000);
}

// What all ranks of a machine copy for a save is in what they may need, and little more is.
TEST(Memory, SavesAreCounted) {
  struct Layout {
    int dp, tp, pp, zero, group;
    Precision precision;
  };
  for (const Layout& l :
       {Layout{1, 1, 1, 0, 0, Precision::fp32}, Layout{2, 1, 1, 0, 0, Precision::amp_bf16},
        Layout{2, 1, 2, 0, 0, Precision::fp32}, Layout{2, 2, 1, 1, 0, Precision::bf16},
        Layout{4, 1, 1, 3, 2, Precision::amp_fp16}}) {
    Config config = tiny_config();
    config.model.hidden = 256;
    config.model.ffn = 1024;
    config.parallel.dp = l.dp;
    config.parallel.tp = l.tp;
    config.parallel.pp = l.pp;
    config.parallel.zero = l.zero;
    config.parallel.zero_group = l.group;
    config.precision = l.precision;
    double copied = 0, counted = 0;
    run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
      Trainer trainer(config, world);
      trainer.initialise();
      Shard shard;
      collect_shard(trainer, shard);
      Config saving = config;
      saving.output = "somewhere";
      EXPECT_EQ(save_bytes(config, trainer.gpt().shape()), 0u);
      double sums[] = {static_cast<double>(shard.bytes),
                       static_cast<double>(save_bytes(saving, trainer.gpt().shape()))};
      world.all_reduce(Tensor(sums, DType::f64, {2}));
      if (world.rank() == 0) std::tie(copied, counted) = std::pair(sums[0], sums[1]);
    });
    EXPECT_LE(copied, counted) << l.dp << l.tp << l.pp << l.zero;
    EXPECT_GE(copied, 0.9 * counted) << l.dp << l.tp << l.pp << l.zero;
  }
}

TEST(Memory, PlansThatLeaveNoRoomForSavesAreTooLarge) {
  Config config = tiny_config();
  config.device = Device::cpu;
  const size_t budget = memory_totals(memory_plan(rank_shape(config, {}))).total;
  require_fits(config, budget);
  config.output = "somewhere";
  EXPECT_ERROR(require_fits(config, budget), ExitCode::out_of_memory, "of it for saves");
  require_fits(config, budget + save_bytes(config, rank_shape(config, {})));
}

// Saving needs host memory on a GPU, too: this run would need 600 TB.
TEST(Memory, SavesOfAGpuNeedHostMemory) {
  Config config = tiny_config();
  config.device = Device::cuda;
  config.model.layers = 1000;
  config.model.hidden = 1 << 16;
  config.model.ffn = 4 * config.model.hidden;
  config.model.heads = 512;
  const size_t enough = std::numeric_limits<size_t>::max();
  require_fits(config, enough);
  config.output = "somewhere";
  EXPECT_ERROR(require_fits(config, enough), ExitCode::out_of_memory, "of it for saves");
}

// cuDNN's working memory is counted where cuDNN works.
TEST(Memory, OwnAttentionKernelsNeedNoCopiesOfGradients) {
  Config config = tiny_config();
  config.device = Device::cuda;
  config.model.hidden = 1024;
  config.model.heads = 16;
  config.seq_len = config.model.positions = 2048;
  config.micro_batch = config.global_batch = 16;
  const auto overhead = [&](Precision precision, int64_t heads) {
    config.precision = precision;
    config.model.heads = heads;
    return device_overhead(config, rank_shape(config, {}), false);
  };
  const size_t own = overhead(Precision::fp32, 16);
  EXPECT_EQ(overhead(Precision::amp_bf16, 4), own);  // heads of size 256
  EXPECT_GT(overhead(Precision::amp_bf16, 16), own + (size_t{1} << 30));
}

TEST(Memory, AutoFillsAPipeline) {
  Config config = tiny_config();
  config.global_batch = 64;
  config.parallel.pp = 2;
  const auto chosen = [&] {
    Config c = config;
    c.micro_batch = kAuto;
    choose_micro_batch(c, size_t{1} << 40);
    return c.micro_batch;
  };
  EXPECT_EQ(chosen(), 8);  // four micro-batches for each stage
  config.parallel.dp = 2;
  EXPECT_EQ(chosen(), 4);
  config.global_batch = 4;
  EXPECT_EQ(chosen(), 1);
  config.parallel.dp = 1;
  config.parallel.interleave = 2;
  config.parallel.schedule = PipelineSchedule::interleaved;
  config.global_batch = 36;  // 4 would make 9 of them, which is no multiple of 2
  EXPECT_EQ(chosen(), 3);
  config.global_batch = 7;  // 1 makes seven; 2 makes four, the last one short
  EXPECT_EQ(chosen(), 2);
  config.global_batch = 36;
  config.parallel.pp = 1;
  config.parallel.interleave = 1;
  config.parallel.schedule = PipelineSchedule::one_f_one_b;
  EXPECT_EQ(chosen(), 36);
}

}  // namespace
}  // namespace stretto
