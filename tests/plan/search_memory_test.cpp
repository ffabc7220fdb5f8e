// What the search says of memory is what the program will take, of every layout that is shown.
#include <gtest/gtest.h>

#include "account/memory.h"
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
