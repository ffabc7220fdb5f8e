// What a run of our own is to the planner: its machine, its layout, and the rows it leaves.
#include "plan/local.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/forecast.h"
#include "plan/records.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

constexpr const char* kMachine = R"({
  "cpu": {"usable": 16},
  "memory": {"total_bytes": 64e9, "limit_bytes": 32e9},
  "gpu": {"devices": [{"name": "NVIDIA H200"}, {"name": "other"}]},
  "measured": {"gemm_flops": 4e11, "bf16_gemm_flops": 9e11, "fma_flops": 5e11,
               "fma_flops_one_core": 4e10, "triad_bytes_per_second": 8e10,
               "message_seconds": 4e-6, "message_bytes_per_second": 2e10}})";

std::string without(std::string text, const std::string& key) {
  const size_t at = text.find("\"" + key + "\"");
  EXPECT_NE(at, std::string::npos) << key;
  return text.insert(at + 1, "no_");
}

TEST(Local, AMachineIsReadFromItsRecord) {
  const auto m = read_machine(kMachine);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->cores, 16);
  EXPECT_EQ(m->gemm, 4e11);
  EXPECT_EQ(m->bf16_gemm, 9e11);
  EXPECT_EQ(m->fma, 5e11);
  EXPECT_EQ(m->fma_one_core, 4e10);
  EXPECT_EQ(m->bandwidth, 8e10);
  EXPECT_EQ(m->memory, 32e9) << "the container's limit";
  EXPECT_EQ(m->call_seconds, 4e-6);
  EXPECT_EQ(m->message_rate, 2e10);
  EXPECT_EQ(m->gpu, "NVIDIA H200");
  EXPECT_EQ(read_machine(without(kMachine, "limit_bytes"))->memory, 64e9);
  EXPECT_EQ(read_machine(without(kMachine, "bf16_gemm_flops"))->bf16_gemm, 4e11);
  for (const char* key : {"usable", "gemm_flops", "triad_bytes_per_second", "memory"}) {
    EXPECT_FALSE(read_machine(without(kMachine, key))) << key;
  }
}

TEST(Local, ARankHasItsShareOfTheMachine) {
  const MachineFigures m = read_machine(kMachine).value();
  const auto at = [&](int64_t threads, int64_t ranks) { return local_cluster(m, threads, ranks); };
  const Cluster quarter = at(4, 4);
  EXPECT_TRUE(quarter.time_shared);
  EXPECT_EQ(quarter.units, 4);
  EXPECT_EQ(quarter.devices_per_node, 4);
  EXPECT_DOUBLE_EQ(quarter.matrix_flops, 9e11 / 4);
  EXPECT_DOUBLE_EQ(quarter.vector_flops, 4e11 / 4);
  EXPECT_DOUBLE_EQ(quarter.memory_bandwidth, 8e10 / 4);
  EXPECT_DOUBLE_EQ(quarter.memory_bytes, 0.95 * 32e9 / 4);
  EXPECT_DOUBLE_EQ(quarter.link_latency, 2e-6) << "half of a sum, which is two collectives";
  EXPECT_DOUBLE_EQ(quarter.link_bandwidth, 2e10);
  // More ranks than cores take turns with the arithmetic, but not with the memory.
  const Cluster crowded = at(4, 16);
  EXPECT_DOUBLE_EQ(crowded.memory_bytes, 0.95 * 32e9 / 16);
  EXPECT_DOUBLE_EQ(crowded.vector_flops, 4e11 / 4);
  // One rank of four threads leaves cores idle, but their share of memory, too.
  EXPECT_DOUBLE_EQ(at(4, 1).memory_bytes, 0.95 * 32e9 / 4);
  EXPECT_EQ(at(1000, 1).units, 16) << "no more threads than cores";
}

// One way to say a layout, however the configuration says it.
TEST(Local, ALayoutSaysNothingThatChangesNothing) {
  Config c;
  c.model = shape(8, 256, 4, 1024);
  c.parallel.dp = 4;
  c.parallel.zero = 3;
  c.parallel.zero_group = 4;
  EXPECT_EQ(layout_of(c).zero_group, 0) << "one group of all ranks";
  c.parallel.zero_group = 2;
  EXPECT_EQ(layout_of(c).zero_group, 2);
  c.parallel.zero_group = 0;
  c.parallel.dp = 1;
  EXPECT_EQ(layout_of(c).zero, 3) << "has buffers for gathered units";
  c.parallel.zero = 1;
  EXPECT_EQ(layout_of(c).zero, 0);
  c.parallel.sequence_parallel = true;
  EXPECT_FALSE(layout_of(c).sequence_parallel) << "without tensor ranks";
  c.parallel.schedule = PipelineSchedule::zero_bubble;
  EXPECT_EQ(layout_of(c).schedule, PipelineSchedule::one_f_one_b) << "without stages";
  c.parallel.tp = c.parallel.pp = 2;
  EXPECT_TRUE(layout_of(c).sequence_parallel);
  EXPECT_EQ(layout_of(c).schedule, PipelineSchedule::zero_bubble);
}

TEST(Local, ARampUpIsWhatDividesAllItsBatches) {
  Config c;
  c.model = shape(8, 256, 4, 1024);
  c.global_batch = 96;
  EXPECT_EQ(workload_of(c).ramp_step, 0);
  c.train.ramp_up = {24, 36, 1000};
  EXPECT_EQ(workload_of(c).ramp_step, 12);
}

// Layouts one could run next: those of the works that ran, but not those that ran.
TEST(CandidateRuns, LeaveOutWhatRan) {
  const Place p = place("h100", "stretto");
  Observation o;
  o.work = {shape(24, 2048, 16, 50368), 2048, 64, Precision::amp_bf16};
  o.layout.dp = 8;
  o.layout.micro_batch = 4;
  o.seconds = 1;
  o.memory = 1e9;
  const auto first = candidate_runs(p.cluster, p.stack, {o});
  ASSERT_GT(first.size(), 10u);
  Observation ran = first[first.size() / 2];
  ran.seconds = 1;
  const auto next = candidate_runs(p.cluster, p.stack, {o, ran});
  EXPECT_EQ(next.size(), first.size() - 1);
  std::set<std::string> seen;
  for (const Observation& c : next) {
    EXPECT_FALSE(c.layout == o.layout || c.layout == ran.layout) << c.id;
    EXPECT_EQ(c.id, describe(c.layout));
    EXPECT_EQ(c.layout.devices(), 8);
    EXPECT_EQ(c.seconds, 0);
    EXPECT_EQ(c.memory, 0);
    EXPECT_EQ(estimate_memory(p.cluster, p.stack, c.work, c.layout).fit, Fit::fits) << c.id;
    EXPECT_TRUE(seen.insert(c.id).second) << c.id;
  }
}

// Of many works the first eight are enough: candidates are compared in pairs.
TEST(CandidateRuns, AreOfFewWorks) {
  const Place p = place("h100", "stretto");
  std::vector<Observation> rows;
  for (int64_t i = 0; i < 12; ++i) {
    Observation o;
    o.work = {shape(4 + i, 512, 8, 1024), 256, 8, Precision::amp_bf16};
    o.seconds = 1;
    rows.push_back(o);
  }
  std::set<int64_t> layers;
  for (const Observation& c : candidate_runs(p.cluster, p.stack, rows)) {
    layers.insert(c.work.model.layers);
  }
  EXPECT_EQ(layers, (std::set<int64_t>{4, 5, 6, 7, 8, 9, 10, 11}));
}

// The fast clock mode speeds up the cores and what they launch, but not the network.
TEST(Settings, AreThoseOfTheRow) {
  Place p = bloom_place();
  p.stack.constants.set(Constant::boost, 1.25);
  p.stack.constants.set(Constant::host, 1.1);
  p.stack.fused_softmax = FusedSoftmax::by_heads;
  p.stack.recompute_stops_early = true;
  const auto of = [&](const Observation& o) {
    return setting_of(p.cluster, p.stack, p.stack.constants, o);
  };
  const Setting plain = of({});
  EXPECT_EQ(plain.factor, 1);
  EXPECT_EQ(plain.cluster.matrix_flops, p.cluster.matrix_flops);
  EXPECT_TRUE(plain.stack.recompute_stops_early);
  EXPECT_EQ(plain.stack.fused_softmax, FusedSoftmax::by_heads);
  Observation o;
  o.boost_clock = true;
  const Setting fast = of(o);
  EXPECT_DOUBLE_EQ(fast.cluster.matrix_flops, 1.25 * p.cluster.matrix_flops);
  EXPECT_DOUBLE_EQ(fast.cluster.vector_flops, 1.25 * p.cluster.vector_flops);
  EXPECT_DOUBLE_EQ(fast.cluster.memory_bandwidth, 1.25 * p.cluster.memory_bandwidth);
  EXPECT_DOUBLE_EQ(fast.stack.constants[Constant::gap], p.stack.constants[Constant::gap] / 1.25);
  EXPECT_EQ(fast.cluster.link_bandwidth, p.cluster.link_bandwidth);
  EXPECT_EQ(fast.cluster.node_bandwidth(), p.cluster.node_bandwidth());
  o = {};
  o.before_repair = true;
  EXPECT_EQ(of(o).factor, 1.1);
  o.softmax_fused = o.whole_recompute = true;
  EXPECT_EQ(of(o).stack.fused_softmax, FusedSoftmax::always);
  EXPECT_FALSE(of(o).stack.recompute_stops_early);
  o = {};
  o.cluster = std::make_shared<const Cluster>(find_cluster("h100"));
  EXPECT_EQ(of(o).cluster.name, "h100");
}

}  // namespace
}  // namespace stretto::plan
