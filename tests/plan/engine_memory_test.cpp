// The planner's memory of our own runtime against what the engine takes for the same configuration.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "config/rules.h"
#include "plan/forecast.h"
#include "plan_support.h"
#include "train/rank_plan.h"
#include "train/verify.h"

namespace stretto::plan {
namespace {

constexpr PipelineSchedule kSchedules[] = {
    PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
    PipelineSchedule::zero_bubble, PipelineSchedule::eager_one_f_one_b};

// Of the stage's ranks, what the engine's own shape of them comes to.
MemoryTotals engines(const Config& config, int stage) {
  Coordinates at;
  at.pp = stage;
  RankShape shape = rank_shape(config, at);
  shape.workspace = {};  // a CPU's kernels: the planner says that it leaves them out
  return memory_totals(memory_plan(shape));
}

// What differs; empty: nothing, to the byte and on every stage.
std::string difference(const Config& config) {
  const bool gpu = config.device == Device::cuda;
  const Place p = place(gpu ? "h200" : "fugaku-a64fx", "stretto");
  const Workload work = workload_of(config);
  const Layout layout = layout_of(config);
  const MemoryEstimate all = own_memory(p.cluster, p.stack, work, layout);
  if (all.exact != gpu || !all.listed) return "what it says of itself";
  if (layout.schedule != config.parallel.running_schedule()) return "the schedule that is priced";
  double most = 0;
  for (int stage = 0; stage < config.parallel.pp; ++stage) {
    const StageMemory m = own_stage(p.cluster, p.stack, work, layout, stage);
    const MemoryTotals want = engines(config, stage);
    const auto term = [&](MemoryTerm t) {
      return static_cast<double>(want.by_term[static_cast<size_t>(t)]);
    };
    const std::string where = fmt::format("stage {} of {}: ", stage, describe(layout));
    const auto unequal = [&](const char* what, double got, double wanted) {
      return fmt::format("{}{} {} instead of {}", where, what, got, wanted);
    };
    const double weights = term(MemoryTerm::weights) + term(MemoryTerm::gradients);
    const double working = term(MemoryTerm::communication) + term(MemoryTerm::data);
    if (m.weights != weights) return unequal("weights", m.weights, weights);
    if (m.states != term(MemoryTerm::optimizer)) return where + "states";
    if (m.checkpoints != term(MemoryTerm::activations)) {
      return unequal("activations", m.checkpoints, term(MemoryTerm::activations));
    }
    if (m.working != working) return unequal("working", m.working, working);
    if (m.logits != term(MemoryTerm::logits)) return where + "logits";
    Coordinates at;
    at.pp = stage;
    const auto beside =
        static_cast<double>(device_overhead(config, rank_shape(config, at), p.cluster.is_hopper()));
    if (gpu && m.fixed != beside) return unequal("beside the plan", m.fixed, beside);
    most = std::max(most, static_cast<double>(want.total) + m.fixed);
  }
  return all.largest.total() == most ? "" : "the largest of all stages";
}

Config small_run() {
  Config c;
  c.model = {"test", 9, 32, 4, 61, 16, 128};
  c.seq_len = 16;
  c.global_batch = 48;
  c.threads = 1;
  return c;
}

TEST(EngineMemory, IsThatOfEveryTopologyOfTheGrid) {
  for (const Device device : {Device::cpu, Device::cuda}) {
    Config base = small_run();
    base.device = device;
    const auto cases = verify_grid(base, 8, 1);
    EXPECT_GT(cases.size(), 20u);
    for (const auto& one : cases) EXPECT_EQ(difference(one.config), "") << one.name;
  }
}

// What the engine takes and the grid has not: schedules that one stage does not run, ZeRO of one
// rank, gradients in a fixed order.
TEST(EngineMemory, IsThatOfWhatOneRankMayBeTold) {
  Config run = small_run();
  for (const PipelineSchedule schedule : kSchedules) {
    run.parallel.schedule = schedule;
    if (schedule == PipelineSchedule::interleaved) continue;  // refused
    EXPECT_EQ(difference(run), "") << name_of(schedule);
  }
  run = small_run();
  for (int zero = 0; zero <= 3; ++zero) {
    run.parallel.zero = zero;
    EXPECT_EQ(difference(run), "") << zero;
    run.deterministic = !run.deterministic;
    EXPECT_EQ(difference(run), "") << zero << " in a fixed order";
  }
}

RC_GTEST_PROP(EngineMemory, IsThatOfAnyConfiguration, ()) {
  using rc::gen::element;
  Config c = small_run();
  c.model.layers = *rc::gen::inRange(4, 14);
  c.model.tied_embedding = *rc::gen::arbitrary<bool>();
  c.device = *element(Device::cpu, Device::cuda);
  c.precision = *element(Precision::fp32, Precision::amp_bf16, Precision::bf16);
  c.micro_batch = *rc::gen::inRange(1, 4);
  c.global_batch = 4 * *rc::gen::inRange(1, 40);
  c.deterministic = *rc::gen::arbitrary<bool>();
  c.activation_checkpointing = *rc::gen::elementOf(
      std::vector<Checkpointing>(std::begin(kCheckpointings), std::end(kCheckpointings)));
  c.activation_offload = *rc::gen::arbitrary<bool>();
  c.optimizer_offload = *rc::gen::arbitrary<bool>();
  c.logits_chunk = *element<int64_t>(0, 1 << 10);
  c.parallel.dp = *element<int64_t>(1, 2, 4);
  c.parallel.tp = *element<int64_t>(1, 2);
  c.parallel.pp = *element<int64_t>(1, 2, 4);
  c.parallel.zero = *rc::gen::inRange(0, 4);
  c.parallel.zero_group = *element<int64_t>(0, 0, 2);
  c.parallel.schedule = *rc::gen::elementOf(
      std::vector<PipelineSchedule>(std::begin(kSchedules), std::end(kSchedules)));
  c.parallel.interleave = c.parallel.schedule == PipelineSchedule::interleaved ? 2 : 1;
  c.parallel.sequence_parallel = *rc::gen::arbitrary<bool>();
  c.parallel.reduce_dtype = *element(DType::f32, DType::bf16);
  c.parallel.partition = *element<const char*>("transformer", "transformer+embedding");
  RC_PRE(is_valid(c));
  const std::string found = difference(c);
  if (!found.empty()) RC_LOG() << found;
  RC_ASSERT(found.empty());
}

}  // namespace
}  // namespace stretto::plan
