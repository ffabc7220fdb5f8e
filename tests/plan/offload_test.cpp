// Offloading takes the time of the link to the host, as far as compute does not hide it.
#include <gtest/gtest.h>

#include "account/flops.h"
#include "account/parameters.h"
#include "config/registry.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

struct Told {
  bool activations = false, optimizer = false;
};

Workload work_of(const char* model, int64_t seq_len, int64_t batch, Told told = {}) {
  Workload w;
  w.model = find_model(model);
  w.seq_len = seq_len;
  w.global_batch = batch;
  w.activation_offload = told.activations;
  w.optimizer_offload = told.optimizer;
  return w;
}

Layout one_device(int64_t micro_batch, Checkpointing recompute) {
  Layout l;
  l.micro_batch = micro_batch;
  l.recompute = recompute;
  return l;
}

// docs/cuda.md, Offload: steps on one H200. The first of each group is the one without.
TEST(Offload, StepsAreAsMuchLongerAsMeasured) {
  struct Row {
    Checkpointing recompute;
    Told told;
    double seconds;
  };
  struct Group {
    const char* model;
    int64_t seq_len, batch;
    std::vector<Row> rows;
  };
  const auto none = Checkpointing::none, full = Checkpointing::full;
  const Place p = place("h200", "stretto");
  for (const Group& g : std::vector<Group>{
           {"mpt-125m",
            1024,
            32,
            {{none, {}, 0.0512}, {none, {true, false}, 0.3246}, {none, {false, true}, 0.0706}}},
           {"mpt-125m", 1024, 32, {{full, {}, 0.0608}, {full, {true, false}, 0.0607}}},
           {"mpt-1b",
            2048,
            8,
            {{full, {}, 0.2893},
             {full, {true, false}, 0.2917},
             {full, {false, true}, 0.5397},
             {full, {true, true}, 0.5396}}}}) {
    const auto predicted = [&](const Row& row) {
      return seconds(p, work_of(g.model, g.seq_len, g.batch, row.told),
                     one_device(g.batch, row.recompute));
    };
    for (const Row& row : g.rows) {
      const double now = predicted(row), base = predicted(g.rows[0]);
      EXPECT_NEAR((now / base) / (row.seconds / g.rows[0].seconds), 1, 0.2)
          << g.model << " " << row.told.activations << row.told.optimizer;
      EXPECT_NEAR(now / row.seconds, 1, 0.2) << g.model;
    }
  }
}

// Lower halves of master weights and two moments in fp32, in and out at once: 10 bytes on each way.
TEST(Offload, StateCrossesOnceInEachDirection) {
  Place p = place("h200", "stretto");
  const Layout l = one_device(8, Checkpointing::full);
  const Workload w = work_of("mpt-1b", 2048, 8, {false, true});
  p.cluster.host_bandwidth = 1e9;  // nothing hides
  const Estimate e = estimate(p.cluster, p.stack, w, l);
  const auto parameters = static_cast<double>(parameter_count(w.model));
  EXPECT_NEAR(e.host_link, 10 * parameters / 1e9, 0.01 * e.host_link);
  Workload pure = w;
  pure.precision = Precision::bf16;  // moments in bf16, no master
  EXPECT_NEAR(estimate(p.cluster, p.stack, pure, l).host_link, e.host_link * 4 / 10,
              0.01 * e.host_link);
  Layout sharded = l;
  sharded.dp = 4;
  sharded.zero = 1;
  EXPECT_NEAR(estimate(p.cluster, p.stack, w, sharded).host_link, e.host_link / 4,
              0.01 * e.host_link);
}

// Copies go on while layers wait for weights and gradients of other ranks. Here nothing else hides
// them: out beside all layers' forward passes and one backward pass, back beside n - 2 of these.
TEST(Offload, CopiesHideBehindTheWaitingOfZero) {
  Place p = place("h200", "stretto");
  p.cluster.host_bandwidth = 1e6;
  p.cluster.link_bandwidth = 1e9;
  for (Tier& tier : p.cluster.tiers) tier.bytes_per_second = 1e9;
  Workload w = work_of("mpt-125m", 1024, 8, {true, false});
  w.model.vocab = 8;  // the embedding's own traffic is nobody's layer
  Layout l = one_device(1, Checkpointing::none);
  l.dp = 8;
  struct Seconds {
    double host, waiting;
  };
  // Of one more micro-batch: what a step does once is left out.
  const auto at = [&](int zero) -> Seconds {
    l.zero = zero;
    w.global_batch = 8;
    const Estimate one = estimate(p.cluster, p.stack, w, l);
    w.global_batch = 16;
    const Estimate two = estimate(p.cluster, p.stack, w, l);
    return {two.host_link - one.host_link, two.dp_exposed - one.dp_exposed};
  };
  const Seconds none = at(1), two = at(2), three = at(3);
  const auto n = static_cast<double>(w.model.layers);
  EXPECT_NEAR((none.host - two.host) / ((n - 1) / n * two.waiting), 1, 0.01);
  EXPECT_GT(none.host - three.host, 0.99 * (n - 1) / n * three.waiting);
  EXPECT_LT(none.host - three.host, three.waiting);
}

TEST(Offload, CostsNothingWhereNothingCrosses) {
  const Workload told = work_of("mpt-125m", 1024, 64, {true, true});
  const Workload plain = work_of("mpt-125m", 1024, 64);
  const Layout l = one_device(8, Checkpointing::none);
  const Place other = place("h100", "composer-fsdp"), cpu = place("local", "stretto");
  for (const Place& p : {other, cpu}) {
    EXPECT_EQ(seconds(p, told, l), seconds(p, plain, l)) << p.cluster.name;
  }
  EXPECT_EQ(cpu.cluster.host_bandwidth, 0);
  const Place gpu = place("h100", "stretto");
  EXPECT_EQ(estimate(gpu.cluster, gpu.stack, plain, l).host_link, 0);
  EXPECT_GT(estimate(gpu.cluster, gpu.stack, told, l).host_link, 0);
}

}  // namespace
}  // namespace stretto::plan
