// `gelu`, the lightest way of checkpointing: what it costs, what it saves, who has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/advice.h"
#include "plan/records.h"
#include "plan/report.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

Workload three_b() { return {shape(32, 2560, 20, 50368), 2048, 64, Precision::amp_bf16}; }

Layout one_device(Checkpointing mode) {
  Layout l;
  l.micro_batch = 8;
  l.recompute = mode;
  return l;
}

size_t with_gelu(const Place& p) {
  Constraints limits;
  limits.devices = 16;
  const auto layouts = enumerate_layouts(p.cluster, p.stack, three_b(), limits, nullptr);
  return static_cast<size_t>(std::count_if(layouts.begin(), layouts.end(), [](const Layout& l) {
    return l.recompute == Checkpointing::gelu;
  }));
}

TEST(Gelu, OnlyOurOwnRuntimeHasIt) {
  EXPECT_GT(with_gelu(place("h200", "stretto")), 0u);
  for (const std::string& name : stack_names()) {
    if (name == "stretto") continue;
    EXPECT_EQ(with_gelu(place("a100-80", name)), 0u) << name;
  }
}

// The feed-forward block's second input is not kept: tokens x 4 hidden x 2 bytes on every layer.
TEST(Gelu, KeepsOneTensorPerLayerLess) {
  const Place p = place("h200", "stretto");
  const Workload w = three_b();
  const auto needed = [&](Checkpointing mode) {
    return own_memory(p.cluster, p.stack, w, one_device(mode)).needed();
  };
  const double act = 8.0 * 2048 * 4 * 2560 * 2;
  EXPECT_NEAR(needed(Checkpointing::none) - needed(Checkpointing::gelu), 32 * act, 0.01 * 32 * act);
  EXPECT_GT(needed(Checkpointing::gelu), needed(Checkpointing::selective));
  const MemoryEstimate formula =
      estimate_memory(p.cluster, p.stack, w, one_device(Checkpointing::gelu));
  EXPECT_NEAR(formula.needed() / needed(Checkpointing::gelu), 1, 0.25);
}

// One more write of that tensor, no product: under 1 % of the time where it takes a quarter off.
TEST(Gelu, CostsOneWriteOfTheTensorPerLayerAndMicroBatch) {
  const Place p = place("h200", "stretto");
  const Workload w = three_b();
  const auto priced = [&](Checkpointing mode) {
    return estimate(p.cluster, p.stack, w, one_device(mode));
  };
  const Estimate none = priced(Checkpointing::none), gelu = priced(Checkpointing::gelu);
  const double bytes = 8 * 32 * 8.0 * 2048 * 4 * 2560 * 2;  // 8 micro-batches, 32 layers
  const double stream = p.cluster.memory_bandwidth * p.stack.constants[Constant::hbm];
  EXPECT_NEAR(gelu.seconds - none.seconds, bytes / stream, 1e-3 * bytes / stream);
  EXPECT_EQ(gelu.gemm, none.gemm);
  EXPECT_LT(gelu.seconds / none.seconds, 1.02);
  EXPECT_LT(gelu.seconds, priced(Checkpointing::selective).seconds);
}

// Where everything just does not fit, gelu is what a plan takes, says and writes.
TEST(Gelu, IsTakenWhereKeepingEverythingDoesNotFit) {
  Place p = place("h200", "stretto");
  Constraints limits;
  limits.devices = 1;
  limits.micro_batch = 8;
  const double all =
      own_memory(p.cluster, p.stack, three_b(), one_device(Checkpointing::none)).needed();
  p.cluster.memory_bytes = 0.95 * all / kTight;
  const Plan plan = make_plan(p.cluster, p.stack, three_b(), limits);
  ASSERT_FALSE(plan.ranked.empty());
  EXPECT_EQ(plan.ranked.front().layout.recompute, Checkpointing::gelu);
  EXPECT_TRUE(plan.ranked.front().memory.exact);
  EXPECT_NE(plan_text(plan, {.top = 3, .width = 1000}).find("activation_checkpointing=gelu"),
            std::string::npos);
  EXPECT_EQ(plan_json(plan, 1)["layouts"][0]["recompute"], "gelu");
  EXPECT_NE(plan_csv(plan, 1).find(",gelu,"), std::string::npos);
  const auto change = nearest_fit(p.cluster, p.stack, three_b(), one_device(Checkpointing::none));
  ASSERT_TRUE(change);
  EXPECT_EQ(change->layout.recompute, Checkpointing::gelu);
}

// Recomputing is never a tie with the same layout without it, however small the difference.
TEST(Gelu, LosesToTheSameLayoutThatKeepsEverything) {
  const Place p = place("h200", "stretto");
  Constraints limits;
  limits.devices = 1;
  limits.micro_batch = 4;
  const Plan plan = make_plan(p.cluster, p.stack, three_b(), limits);
  ASSERT_GE(plan.ranked.size(), 2u);
  EXPECT_EQ(plan.ranked[0].layout.recompute, Checkpointing::none);
  EXPECT_EQ(plan.ranked[1].layout.recompute, Checkpointing::gelu);
  EXPECT_EQ(plan.ranked[0].tie, plan.ranked[1].tie);
  EXPECT_GT(plan.ranked[0].memory.needed(), plan.ranked[1].memory.needed());
}

TEST(Gelu, RecordsOfRunsMayNameIt) {
  const auto rows = read_record_table(
      "id,layers,hidden,heads,vocab,seq_len,global_batch,dp,tp,pp,micro_batch,recompute,seconds\n"
      "a,32,2560,20,50368,2048,8,1,1,1,8,gelu,0.477\n",
      "t.csv", Precision::fp32);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].layout.recompute, Checkpointing::gelu);
}

}  // namespace
}  // namespace stretto::plan
