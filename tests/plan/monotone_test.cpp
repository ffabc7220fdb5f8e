// More bandwidth, memory or peak is never predicted slower or less feasible.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "plan_support.h"

namespace stretto::plan {
namespace {

struct Case {
  Place place;
  Workload work;
  Layout layout;
};

Case random_case() {
  const bool fsdp = *rc::gen::arbitrary<bool>();
  Case c;
  c.place = fsdp ? place("h100", "composer-fsdp") : place("a100-80", "stretto");
  const int64_t heads = int64_t{1} << *rc::gen::inRange(3, 7);
  const int64_t hidden = heads * 8 * *rc::gen::inRange<int64_t>(4, 17);
  c.work = {shape(*rc::gen::inRange<int64_t>(4, 65), hidden, heads,
                  *rc::gen::inRange<int64_t>(1000, 60000)),
            int64_t{1} << *rc::gen::inRange(8, 13), 1024, Precision::amp_bf16};
  Layout& l = c.layout;
  l.dp = int64_t{1} << *rc::gen::inRange(0, 7);
  l.micro_batch = int64_t{1} << *rc::gen::inRange(0, 3);
  l.recompute = *rc::gen::element(Checkpointing::none, Checkpointing::full);
  if (!fsdp) l.recompute = kCheckpointings[*rc::gen::inRange(0, 4)];
  if (fsdp) {
    l.zero = 3;
  } else {
    l.tp = int64_t{1} << *rc::gen::inRange(0, 4);
    l.pp = *rc::gen::inRange<int64_t>(1, std::min<int64_t>(c.work.model.layers, 9));
    l.zero = *rc::gen::inRange(0, l.pp > 1 ? 2 : 4);
    if (l.pp > 1 && *rc::gen::arbitrary<bool>()) l.schedule = PipelineSchedule::zero_bubble;
    if (l.zero > 0 && l.dp >= 8 && *rc::gen::arbitrary<bool>()) l.zero_group = 4;
    l.sequence_parallel = *rc::gen::arbitrary<bool>();
  }
  return c;
}

RC_GTEST_PROP(Monotone, FasterHardwareIsNeverSlower, ()) {
  Case c = random_case();
  c.work.activation_offload = *rc::gen::arbitrary<bool>();
  c.work.optimizer_offload = *rc::gen::arbitrary<bool>();
  const double before = seconds(c.place, c.work, c.layout);
  const double factor = 1 + 0.01 * *rc::gen::inRange(1, 400);
  for (int field = 0; field < 8; ++field) {
    Place better = c.place;
    Cluster& k = better.cluster;
    if (field == 0) k.matrix_flops *= factor;
    if (field == 1) k.vector_flops *= factor;
    if (field == 2) k.memory_bandwidth *= factor;
    if (field == 3) k.link_bandwidth *= factor;
    if (field == 4) {
      for (Tier& tier : k.tiers) tier.bytes_per_second *= factor;
    }
    if (field == 5) k.link_latency /= factor;
    if (field == 7) k.host_bandwidth *= factor;
    if (field == 6) {
      for (Tier& tier : k.tiers) tier.latency /= factor;
    }
    RC_ASSERT(seconds(better, c.work, c.layout) <= before * (1 + 1e-12));
  }
}

RC_GTEST_PROP(Monotone, MoreMemoryIsNeverLessFeasible, ()) {
  const Case c = random_case();
  Cluster bigger = c.place.cluster;
  bigger.memory_bytes *= 1 + 0.01 * *rc::gen::inRange(1, 400);
  const Fit before = estimate_memory(c.place.cluster, c.place.stack, c.work, c.layout).fit;
  const Fit after = estimate_memory(bigger, c.place.stack, c.work, c.layout).fit;
  RC_ASSERT(static_cast<int>(after) <= static_cast<int>(before));
}

RC_GTEST_PROP(Monotone, LargerMicroBatchNeverNeedsLessMemory, ()) {
  const Case c = random_case();
  Layout larger = c.layout;
  larger.micro_batch *= 2;
  // The same number in flight, so that only the size differs.
  Workload work = c.work;
  work.global_batch = 1 << 20;
  RC_ASSERT(estimate_memory(c.place.cluster, c.place.stack, work, larger).needed() >=
            estimate_memory(c.place.cluster, c.place.stack, work, c.layout).needed());
}

// Our own runtime: recomputing more never takes less time, and keeps less.
RC_GTEST_PROP(Monotone, RecomputingMoreIsSlowerAndKeepsLess, ()) {
  const Case c = random_case();
  if (!c.place.stack.own_runtime) return;
  double time = 0, kept = 0;
  for (Checkpointing mode : kCheckpointings) {
    Layout l = c.layout;
    l.recompute = mode;
    const double now = seconds(c.place, c.work, l);
    const MemoryEstimate m = own_memory(c.place.cluster, c.place.stack, c.work, l);
    RC_ASSERT(now > time);
    if (mode == Checkpointing::gelu) RC_ASSERT(m.needed() <= kept);
    time = now;
    kept = m.needed();
  }
}

RC_GTEST_PROP(Monotone, TermsAddUp, ()) {
  Case c = random_case();
  c.work.activation_offload = c.work.optimizer_offload = *rc::gen::arbitrary<bool>();
  const Estimate e = estimate(c.place.cluster, c.place.stack, c.work, c.layout);
  const double sum = e.gemm + e.attention + e.passes + e.launches + e.head + e.tp_exposed +
                     e.pp_exposed + e.dp_exposed + e.bubble + e.imbalance + e.optimizer +
                     e.host_link + e.core_wait + e.fixed;
  RC_ASSERT(std::abs(sum - e.seconds) <= 1e-9 * e.seconds);
  RC_ASSERT(e.bubble >= -1e-12 && e.imbalance >= -1e-9 * e.seconds);
}

}  // namespace
}  // namespace stretto::plan
