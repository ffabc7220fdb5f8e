// What the search says of memory is what the program will take, of every layout that is shown.
#include <gtest/gtest.h>

#include "account/memory.h"
#include "plan/advice.h"
#include "plan/report.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

Workload seven_b() { return {shape(32, 4096, 32, 50368), 2048, 2048, Precision::amp_bf16}; }

TEST(SearchMemory, EveryRowThatIsShownIsExact) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 64;
  limits.shown = 60;
  const Plan plan = make_plan(p.cluster, p.stack, seven_b(), limits);
  ASSERT_GE(plan.ranked.size(), limits.shown);
  for (size_t i = 0; i < limits.shown; ++i) {
    const Candidate& c = plan.ranked[i];
    const MemoryEstimate exact = own_memory(p.cluster, p.stack, seven_b(), c.layout);
    EXPECT_EQ(c.memory.needed(), exact.needed()) << i;
    EXPECT_EQ(exact.fit, Fit::fits) << i;
  }
}

// A tie is ordered by memory. If only some of its layouts had exact memory, others would come
// before them by a formula that is up to a tenth too low.
TEST(SearchMemory, TiesThatAreShownAreExactToTheirEnd) {
  const Workload one_b{shape(24, 2048, 16, 50368), 2048, 2064, Precision::amp_bf16};
  const Workload thirty_b{shape(48, 7168, 56, 50368), 2048, 64, Precision::amp_bf16};
  const auto check = [](const char* cluster, const Workload& work, int64_t devices,
                        std::optional<int64_t> tp) {
    const Place p = place(cluster, "stretto");
    Constraints limits;
    limits.devices = devices;
    limits.tp = tp;
    const Plan plan = make_plan(p.cluster, p.stack, work, limits);
    ASSERT_GE(plan.ranked.size(), limits.shown);
    const size_t last = plan.ranked[limits.shown - 1].tie;
    for (const Candidate& c : plan.ranked) {
      if (c.tie > last) break;
      const MemoryEstimate exact = own_memory(p.cluster, p.stack, work, c.layout);
      EXPECT_EQ(c.memory.needed(), exact.needed()) << describe(c.layout);
      EXPECT_EQ(exact.fit, Fit::fits) << describe(c.layout);
    }
  };
  check("h100", one_b, 24, 2);
  check("h200", thirty_b, 8, std::nullopt);
}

// Exact memory removes many of the best layouts here. Those that move up must be simulated, too.
TEST(SearchMemory, EveryRowThatIsShownIsSimulated) {
  const Workload seventy_b{shape(80, 8192, 64, 50368), 2048, 2048, Precision::amp_bf16};
  const Workload thirty_b{shape(48, 7168, 56, 50368), 2048, 2048, Precision::amp_bf16};
  const auto check = [](const char* cluster, const Workload& work) {
    const Place p = place(cluster, "stretto");
    Constraints limits;
    limits.devices = 16;
    const Plan plan = make_plan(p.cluster, p.stack, work, limits);
    ASSERT_GE(plan.ranked.size(), limits.shown);
    for (size_t i = 0; i < limits.shown; ++i) {
      const Candidate& c = plan.ranked[i];
      Estimate simulated = estimate(p.cluster, p.stack, work, c.layout);
      refine_to_rank(simulated, work, c.layout);
      EXPECT_EQ(c.estimate.seconds, simulated.seconds) << describe(c.layout);
    }
  };
  check("h100", seventy_b);
  check("a100-40", thirty_b);
}

// What people read is the limit that decides.
TEST(SearchMemory, TheLimitIsSaidAsItIs) {
  const std::string share = fmt::format("{:.0f} %", 100 * kTight);
  EXPECT_EQ(name_of(Reject::tight), "above " + share + " of the memory");
  Place p = place("h100", "stretto");
  const Workload w = seven_b();
  Layout l;
  l.dp = 64;
  l.zero = 1;
  const double needed = own_memory(p.cluster, p.stack, w, l).needed();
  Constraints limits;
  limits.devices = limits.dp.emplace(64);
  limits.zero = 1;
  limits.micro_batch = 1;
  limits.recompute = Checkpointing::none;
  p.cluster.memory_bytes = needed / (kTight + 0.001);
  const Plan tight = make_plan(p.cluster, p.stack, w, limits);
  EXPECT_TRUE(tight.ranked.empty());
  EXPECT_NE(plan_text(tight, {.top = 3, .width = 1000}).find("needs more than " + share),
            std::string::npos);
  p.cluster.memory_bytes = needed / (kTight - 0.001);
  EXPECT_FALSE(make_plan(p.cluster, p.stack, w, limits).ranked.empty());
}

// With ZeRO 2 a rank keeps its share of the gradients: 28 GiB instead of 53.
TEST(SearchMemory, SharedGradientsFit) {
  const Place p = place("a100-40", "stretto");
  Constraints limits;
  limits.devices = 8;
  limits.tp = limits.pp = 1;
  limits.zero = 2;
  const Plan plan = make_plan(p.cluster, p.stack, seven_b(), limits);
  ASSERT_FALSE(plan.ranked.empty());
  EXPECT_EQ(plan.ranked.front().layout.zero, 2);
}

// cuDNN's repeatable backward pass keeps the gradients of all scores, here as much as 256 times dq:
// `train` refuses what has no room for it, so that the search must know. Otherwise it keeps dq and
// a value per row of scores. Our own, for Hopper, keeps dq and a little more.
TEST(SearchMemory, WorkspacesOfAGpuCount) {
  const Place p = place("a100-80", "stretto");
  Workload w{shape(24, 2048, 16, 50368), 65536, 32, Precision::amp_bf16};
  Layout l;
  l.dp = 8;
  l.zero = 3;
  l.recompute = Checkpointing::full;
  const double copy = 65536.0 * 2048 * sizeof(float);
  const MemoryEstimate repeatable = own_memory(p.cluster, p.stack, w, l);
  EXPECT_EQ(repeatable.fit, Fit::does_not_fit);
  EXPECT_EQ(estimate_memory(p.cluster, p.stack, w, l).fit, Fit::does_not_fit);
  EXPECT_GT(repeatable.first.fixed, 256 * copy);
  w.repeatable = false;
  const MemoryEstimate once = own_memory(p.cluster, p.stack, w, l);
  EXPECT_EQ(once.fit, Fit::fits);
  EXPECT_GT(once.first.fixed, copy);
  EXPECT_EQ(repeatable.needed() - once.needed(), 255 * copy);
  w.repeatable = true;
  const auto change = nearest_fit(p.cluster, p.stack, w, l);
  ASSERT_TRUE(change);
  EXPECT_TRUE(change->text.starts_with("repeatable=false, ")) << change->text;
  const Place hopper = place("h100", "stretto");
  const double rows = 65536.0 * 16, tiles = rows / 64 * 2;
  const double beside = sizeof(float) * (rows + 65536 / 64 * 2048 + tiles + 1);
  EXPECT_EQ(own_memory(hopper.cluster, hopper.stack, w, l).needed() - once.needed(), beside);
}

// Logits come in the parts that suit the device, whatever the precision.
TEST(SearchMemory, LogitsAreThoseOfTheDevice) {
  Layout l;
  l.dp = 8;
  l.micro_batch = 8;
  const auto logits = [&](const char* cluster, Precision precision) {
    const Place p = place(cluster, "stretto");
    const Workload w{shape(12, 768, 12, 50368), 2048, 64, precision};
    return own_memory(p.cluster, p.stack, w, l).last.logits;
  };
  EXPECT_GT(logits("h100", Precision::fp32), 0x1p29);
  EXPECT_GT(logits("h100", Precision::amp_bf16), 0x1p29);
  EXPECT_LT(logits("fugaku-a64fx", Precision::fp32), 0x1p27);
  EXPECT_LT(logits("fugaku-a64fx", Precision::amp_bf16), 0x1p27);
}

}  // namespace
}  // namespace stretto::plan
