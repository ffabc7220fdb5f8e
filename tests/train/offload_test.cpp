// Offloaded activations and optimizer state change no bit, on any topology, and take the memory
// that the plan says. The cpu backend runs the same path with copies at once.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "train/rank_plan.h"
#include "train/training.h"

namespace stretto {
namespace {

struct Case {
  const char* name;
  std::function<void(Config&)> change;
};

class Offload : public testing::TestWithParam<Case> {};

TEST_P(Offload, ChangesNoBit) {
  Config config = tiny_config();
  config.train.steps = 4;
  GetParam().change(config);
  const std::vector<StepRecord> plain = train(config);
  config.activation_offload = config.optimizer_offload = true;
  const std::vector<StepRecord> offloaded = train(config);
  ASSERT_EQ(plain.size(), offloaded.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].loss, offloaded[i].loss) << "step " << i + 1;
    EXPECT_EQ(plain[i].grad_norm, offloaded[i].grad_norm) << "step " << i + 1;
  }
}

const Case kCases[] = {
    {"Plain", [](Config&) {}},
    {"OneLayer", [](Config& c) { c.model.layers = 1; }},
    {"AmpBf16", [](Config& c) { c.precision = Precision::amp_bf16; }},
    {"Bf16StochasticRounding", [](Config& c) { c.precision = Precision::bf16; }},
    {"FullRecomputation", [](Config& c) { c.activation_checkpointing = Checkpointing::full; }},
    {"GeluRecomputation", [](Config& c) { c.activation_checkpointing = Checkpointing::gelu; }},
    {"SelectiveRecomputation",
     [](Config& c) { c.activation_checkpointing = Checkpointing::selective; }},
    {"Ragged", [](Config& c) { c.micro_batch = 3; }},
    {"Pipeline", [](Config& c) { c.parallel.pp = 2; }},
    {"Interleaved",
     [](Config& c) {
       c.parallel.pp = 2;
       c.parallel.schedule = PipelineSchedule::interleaved;
       c.parallel.interleave = 2;
     }},
    {"ZeroBubble",
     [](Config& c) {
       c.parallel.pp = 2;
       c.parallel.schedule = PipelineSchedule::zero_bubble;
     }},
    {"ZeroOne",
     [](Config& c) {
       c.parallel.dp = 2;
       c.parallel.zero = 1;
       c.precision = Precision::amp_bf16;
     }},
    {"ZeroThreeTensorParallel",
     [](Config& c) {
       c.parallel.dp = 2;
       c.parallel.tp = 2;
       c.parallel.zero = 3;
     }},
};
INSTANTIATE_TEST_SUITE_P(Cases, Offload, testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

TEST(OffloadMemory, PlanEqualsUse) {
  Config config = tiny_config();
  config.precision = Precision::amp_bf16;
  const MemoryTotals before = memory_totals(memory_plan(rank_shape(config, {})));
  config.activation_offload = config.optimizer_offload = true;
  run_thread_ranks(1, [&](Comm& world) {
    Trainer trainer(config, world);
    const RankShape shape = rank_shape(config, {});
    EXPECT_EQ(trainer.gpt().memory().used_bytes(), memory_totals(memory_plan(shape)).total);
    EXPECT_EQ(trainer.gpt().memory().host_bytes(), memory_totals(host_plan(shape)).total);
    // Two of four layers stay on the device, and two windows of a quarter of the state at most.
    EXPECT_LT(memory_totals(memory_plan(shape)).total, before.total);
    EXPECT_EQ(memory_totals(host_plan(shape)).by_term[static_cast<int>(MemoryTerm::activations)],
              4 * memory_totals(saved_specs(shape)).total);
  });
}

TEST(OffloadMemory, CheckpointsFitRunsWithAndWithout) {
  const std::string folder = testing::TempDir() + "stretto_offload";
  std::filesystem::remove_all(folder);
  Config config = tiny_config();
  config.precision = Precision::amp_bf16;
  config.train.steps = 6;
  config.train.schedule = LrSchedule::constant;  // the same learning rates in each part
  const std::vector<double> reference = losses(config);
  config.output = folder;
  std::vector<double> parts;
  for (const bool offload : {true, false, true}) {
    config.train.steps = static_cast<int64_t>(parts.size()) + 2;
    config.optimizer_offload = config.activation_offload = offload;
    for (const double loss : losses(config)) parts.push_back(loss);
  }
  EXPECT_EQ(parts, reference);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stretto
