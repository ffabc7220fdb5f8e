// The plan is what is used, nothing is allocated inside a step, and checkpointing saves what it
// says.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "train/rank_plan.h"
#include "train/training.h"

namespace {
std::atomic<int64_t> g_allocations{0};
}

// Counts every allocation of this program.
void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace stretto {
namespace {

TEST(Memory, PlanEqualsUse) {
  for (const Checkpointing mode :
       {Checkpointing::none, Checkpointing::selective, Checkpointing::full}) {
    Config config = tiny_config();
    config.activation_checkpointing = mode;
    run_thread_ranks(1, [&](Comm& world) {
      Trainer trainer(config, world);
      const size_t predicted = memory_totals(memory_plan(rank_shape(config, {}))).total;
      EXPECT_EQ(trainer.gpt().memory().used_bytes(), predicted);
    });
  }
}

TEST(Memory, StepsDoNotAllocate) {
  const auto world = make_self_comm("world");
  Trainer trainer(tiny_config(), *world);
  trainer.initialise();
  trainer.step();
  trainer.step();
  const int64_t before = g_allocations.load();
  for (int i = 0; i < 3; ++i) trainer.step();
  // Handles of started collectives, two for each unit of parameters at most; no tensor, no buffer.
  EXPECT_LE(g_allocations.load() - before,
            3 * 2 * static_cast<int64_t>(trainer.gpt().layout().units.size()));
}

TEST(Memory, CheckpointingSavesActivations) {
  Config config = tiny_config();
  auto activations = [&](Checkpointing mode) {
    config.activation_checkpointing = mode;
    const MemoryTotals totals = memory_totals(memory_plan(rank_shape(config, {})));
    return totals.by_term[static_cast<int>(MemoryTerm::activations)];
  };
  const size_t none = activations(Checkpointing::none);
  const size_t selective = activations(Checkpointing::selective);
  const size_t full = activations(Checkpointing::full);
  EXPECT_LT(selective, none);
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

}  // namespace
}  // namespace stretto
