// Records as observations, and predicted beside measured.
#include "bench/observe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sample_record.h"
#include "train/rank_plan.h"

namespace stretto {
namespace {

RunRecord run(const std::string& label, int64_t dp, double seconds) {
  RunRecord r = sample_record();
  r.label = label;
  r.machine =
      R"({"cpu": {"usable": 2}, "memory": {"total_bytes": 8e9},
          "measured": {"gemm_flops": 2e11, "triad_bytes_per_second": 2e10,
                       "message_seconds": 2e-6, "message_bytes_per_second": 1e10}})";
  r.config.threads = 1;
  r.config.parallel.dp = dp;
  r.memory.ranks_here = dp;
  for (StepSample& step : r.steps) step.seconds = seconds;
  return r;
}

TEST(Observe, OnlyRunsThatEndedWellAreLearnedFrom) {
  RunRecord failed = run("failed", 1, 0.1);
  failed.status = RunStatus::oom;
  RunRecord unmeasured = run("unmeasured", 1, 0.1);
  unmeasured.machine = "{}";
  const auto rows =
      observations_of({{"a", run("good", 2, 0.05)}, {"b", failed}, {"c", unmeasured}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].id, "good");
  EXPECT_EQ(rows[0].layout.dp, 2);
  EXPECT_DOUBLE_EQ(rows[0].seconds, 0.05);
  ASSERT_TRUE(rows[0].cluster);
  EXPECT_EQ(rows[0].cluster->devices_per_node, 2);
}

// A file may hold anything; a configuration that cannot be is not forecast.
TEST(Observe, ConfigurationsThatCannotBeAreLeftOut) {
  std::vector<RunRecord> odd(6, run("odd", 1, 0.1));
  odd[0].config.model.heads = 0;
  odd[1].config.parallel.zero_group = -3;
  odd[2].config.model.layers = -2;
  odd[3].config.parallel.pp = 7;
  odd[4].config.parallel.interleave = -1;
  odd[5].config.global_batch = 0;
  for (const RunRecord& r : odd) {
    const auto rows = forecasts_of({run("good", 2, 0.05), r});
    EXPECT_TRUE(rows[0].forecast);
    EXPECT_FALSE(rows[1].forecast);
    EXPECT_TRUE(observations_of({{"a", r}}).empty());
  }
}

// Two ranks in one process. Predicted per rank; measured without what was there before.
TEST(Observe, MemoryIsThatOfARank) {
  RunRecord r = run("dp2", 2, 0.05);
  r.memory.before = 1 << 20;
  r.memory.measured = (1 << 20) + 2 * (30 << 20);
  auto rows = observations_of({{"a", r}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].memory, 30 << 20);
  EXPECT_DOUBLE_EQ(rows[0].expected_memory, process_bytes(r.config, 2) / 2);
  r.memory.measured = 0;  // not known: there is nothing to compare
  EXPECT_EQ(observations_of({{"a", r}})[0].memory, 0);
  r.config.device = Device::cuda;
  r.config.parallel.dp = 1;
  r.machine = R"({"cpu": {"usable": 2}, "memory": {"total_bytes": 8e9},
      "gpu": {"devices": [{"name": "NVIDIA H200"}]}, "measured": {"gemm_flops": 2e11,
      "triad_bytes_per_second": 2e10}})";
  r.memory = {};
  r.memory.measured = 5 << 20;
  r.memory.ranks_here = 1;
  rows = observations_of({{"a", r}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].memory, 5 << 20);
  EXPECT_EQ(rows[0].expected_memory, 0) << "the planner's own count";
}

TEST(Observe, TheRunWithFewestRanksIsKnownAndTheOthersFollowIt) {
  const std::vector<RunRecord> slow = {run("dp2", 2, 0.5), run("one", 1, 1.0)};
  const std::vector<RunRecord> fast = {run("dp2", 2, 0.5), run("one", 1, 0.1)};
  const auto a = forecasts_of(slow), b = forecasts_of(fast);
  ASSERT_TRUE(a[0].forecast && a[1].forecast && b[0].forecast);
  EXPECT_FALSE(a[0].known);
  EXPECT_TRUE(a[1].known);
  EXPECT_NEAR(a[1].forecast->seconds, 1.0, 1e-9);
  EXPECT_NEAR(a[0].forecast->seconds, 10 * b[0].forecast->seconds, 1e-6);
  const ForecastReport c = compare_forecasts(slow);
  EXPECT_EQ(c.rows, 1u);
  EXPECT_NEAR(c.median_error, std::abs(a[0].forecast->seconds / 0.5 - 1), 1e-9);
  EXPECT_NE(c.table.text(80).find("known"), std::string::npos);
}

TEST(Observe, RunsThatDoNotCountHaveNoErrorEither) {
  RunRecord failed = run("failed", 2, 0.001);
  failed.status = RunStatus::fail;
  const ForecastReport good = compare_forecasts({run("one", 1, 1.0), run("dp2", 2, 0.5)});
  const ForecastReport c = compare_forecasts({run("one", 1, 1.0), run("dp2", 2, 0.5), failed});
  EXPECT_EQ(c.rows, 1u);
  EXPECT_DOUBLE_EQ(c.median_error, good.median_error);
  EXPECT_DOUBLE_EQ(c.worst_memory_error, good.worst_memory_error);
  EXPECT_EQ(c.table.text(80).find("failed"), std::string::npos);
  EXPECT_EQ(good.left_out, 0u);
  EXPECT_EQ(c.left_out, 1u);
}

TEST(Observe, LongNamesKeepTheirColumn) {
  const std::string label = "a_name_of_more_than_twenty-four_letters";
  const ForecastReport c = compare_forecasts({run("one", 1, 1.0), run(label, 2, 0.5)});
  const std::string text = c.table.text(200);
  EXPECT_NE(text.find("\n" + label + "  dp"), std::string::npos) << text;
}

TEST(Observe, LargeErrorsKeepTheirColumn) {
  const ForecastReport c = compare_forecasts({run("one", 1, 1.0), run("fast", 2, 0.001)});
  EXPECT_GT(c.worst_error, 99);  // "+49900.0 %"
  const std::string text = c.table.text(200);
  EXPECT_NE(text.find(" +"), std::string::npos) << text;
  EXPECT_EQ(text.find("s+"), std::string::npos) << text;
}

// Such a run comes from `train`, whose machine was not measured. No table would show it as the
// known one.
TEST(Observe, ARunThatCannotBeForecastIsNotTheKnownOne) {
  RunRecord trained = run("trained", 1, 7.0);
  trained.machine = R"({"cpu": {"usable": 2}})";
  trained.started = "2026-03-01T12:00:00Z";
  const auto rows = forecasts_of({trained, run("one", 1, 1.0), run("dp2", 2, 0.5)});
  EXPECT_FALSE(rows[0].known || rows[0].forecast);
  EXPECT_TRUE(rows[1].known);
  ASSERT_TRUE(rows[1].forecast);
  EXPECT_NEAR(rows[1].forecast->seconds, 1, 1e-9);
}

TEST(Observe, ADisturbedRunIsNotTheKnownOne) {
  RunRecord disturbed = run("disturbed", 1, 1.0);
  for (size_t i = 0; i < disturbed.steps.size(); i += 2) disturbed.steps[i].seconds = 3;
  RunRecord steady = run("steady", 1, 1.0);
  steady.started = "9999";  // later
  steady.config.micro_batch *= 2;
  const auto both = forecasts_of({disturbed, steady});
  EXPECT_FALSE(both[0].known);
  EXPECT_TRUE(both[1].known);
  EXPECT_TRUE(forecasts_of({disturbed})[0].known);  // better than none
}

// A step of two milliseconds consists mostly of overheads, which matter little in a long one.
TEST(Observe, OfSeveralTheLongestStepIsKnown) {
  RunRecord small = run("small", 1, 0.002);
  small.started = "0";  // the first
  const auto both = forecasts_of({small, run("large", 1, 0.5)});
  EXPECT_FALSE(both[0].known);
  EXPECT_TRUE(both[1].known);
  RunRecord repeats = run("repeats", 1, 0.7);
  repeats.config.activation_checkpointing = Checkpointing::full;
  EXPECT_TRUE(forecasts_of({run("large", 1, 0.5), repeats})[0].known);
}

TEST(Observe, EachPrecisionHasAKnownRunOfItsOwn) {
  RunRecord emulated = run("emulated", 1, 30.0);
  emulated.config.precision = Precision::amp_bf16;
  emulated.started = "0";  // the first
  const auto all = forecasts_of({emulated, run("one", 1, 1.0), run("dp2", 2, 0.5)});
  EXPECT_TRUE(all[0].known && all[1].known);
  EXPECT_LT(all[2].forecast->seconds, 1.5);
}

TEST(Observe, AProcessTakesWholeHugePagesPerRank) {
  Config c = run("one", 1, 1).config;
  const double one = process_bytes(c, 1), two = process_bytes(c, 2);
  EXPECT_DOUBLE_EQ(two, 2 * one);
  // Plans of some pages differ by whole ones, whatever else a process takes, and have room in them.
  constexpr double kHugePage = 2 << 20;
  const auto plan = [&] {
    return static_cast<double>(memory_totals(memory_plan(stage_shapes(c)[0])).total);
  };
  c.micro_batch = c.global_batch = 64;
  ASSERT_GT(plan(), 4 * kHugePage);
  const double large = process_bytes(c, 1), beside = std::fmod(large, kHugePage);
  EXPECT_GT(large, one);
  for (c.micro_batch = 48; c.micro_batch < 64; ++c.micro_batch) {
    EXPECT_DOUBLE_EQ(std::fmod(process_bytes(c, 1), kHugePage), beside) << c.micro_batch;
    EXPECT_GE(process_bytes(c, 1) - beside, plan()) << c.micro_batch;
    EXPECT_LT(process_bytes(c, 1) - beside, plan() + kHugePage) << c.micro_batch;
  }
  EXPECT_LE(process_bytes(c, 1), large);
}

}  // namespace
}  // namespace stretto
