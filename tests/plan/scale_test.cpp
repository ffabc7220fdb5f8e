// From an iteration to a whole run: failures, stragglers, days and money.
#include "plan/scale.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "account/parameters.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

Workload seven_b() { return {shape(32, 4096, 32, 50368), 2048, 1024, Precision::amp_bf16}; }

ScaleRequest over(std::vector<int64_t> devices) {
  ScaleRequest request;
  request.devices = std::move(devices);
  request.tokens = 1e12;
  request.price_per_device_hour = 2;
  return request;
}

ScalePlan scaled(const ScaleRequest& request) {
  const Place p = place("h100", "stretto");
  Constraints few;  // layouts: the search is not what is tested here
  few.tp = few.pp = few.micro_batch = 1;
  return scale_plan(p.cluster, p.stack, seven_b(), few, request);
}

// What is lost: the writing itself, half an interval's work per failure, and the way back.
TEST(Goodput, TheIntervalIsTheBest) {
  Place p = place("h100", "stretto");
  p.cluster.failures_per_device_hour = 1e-4;
  p.cluster.checkpoint_bandwidth = 1e9;
  p.cluster.restart_seconds = 600;
  const Goodput g = goodput(p.cluster, p.stack, seven_b(), 2048);
  const double between = 3600 / (1e-4 * 2048);
  EXPECT_NEAR(g.hours_between_failures, between / 3600, 1e-9);
  const auto parameters = static_cast<double>(parameter_count(seven_b().model));
  EXPECT_NEAR(g.checkpoint_seconds, 12 * parameters / 1e9, 1e-9 * g.checkpoint_seconds);
  const auto lost = [&](double interval) {
    return g.checkpoint_seconds / interval + (interval / 2 + 600) / between;
  };
  EXPECT_NEAR(g.share, 1 - lost(g.checkpoint_interval), 1e-12);
  for (const double factor : {0.5, 0.9, 1.1, 2.0}) {
    EXPECT_LT(lost(g.checkpoint_interval), lost(factor * g.checkpoint_interval)) << factor;
  }
  EXPECT_EQ(goodput(p.cluster, p.stack, seven_b(), 1 << 30).share, 0) << "no less than nothing";
  p.cluster.failures_per_device_hour = 0;
  EXPECT_EQ(goodput(p.cluster, p.stack, seven_b(), 2048).share, 1);
}

// A cluster's own spread between nodes is in every estimate as far as it was fitted.
TEST(Scale, OnlyTheSpreadThatIsNotFittedYetIsAdded) {
  Place p = place("h100", "stretto");
  Constraints few;
  few.tp = few.pp = few.micro_batch = 1;
  const auto straggler = [&](double cluster, double fitted) {
    p.cluster.straggler_sigma = cluster;
    p.stack.constants.set(Constant::spread, fitted);
    return scale_plan(p.cluster, p.stack, seven_b(), few, over({512})).points[0].straggler;
  };
  EXPECT_DOUBLE_EQ(straggler(0.03, 0), 1 + straggler_wait(0.03, 64));
  EXPECT_DOUBLE_EQ(straggler(0.03, 0.01), 1 + straggler_wait(0.02, 64));
  EXPECT_DOUBLE_EQ(straggler(0.03, 0.04), 1);
}

TEST(Scale, DaysAndDollarsFollowFromTokensADay) {
  const Place p = place("h100", "stretto");
  for (const ScalePoint& q : scaled(over({256, 512, 1024})).points) {
    ASSERT_TRUE(q.feasible);
    EXPECT_DOUBLE_EQ(q.tokens_per_day,
                     q.best.tokens_per_second / q.straggler * q.goodput.share * 86400);
    EXPECT_DOUBLE_EQ(q.days * q.tokens_per_day, 1e12);
    EXPECT_DOUBLE_EQ(q.cost, q.days * 24 * 2 * static_cast<double>(q.devices));
    EXPECT_EQ(q.interval, interval_of(p.stack, q.devices));
  }
}

// The fastest; within a budget the fastest of those that cost no more; before a deadline the one
// with the fewest device hours.
TEST(Scale, TheBestIsThatOfTheLimits) {
  ScaleRequest request = over({64, 128, 256, 512, 1024});
  const ScalePlan free = scaled(request);
  ASSERT_TRUE(free.best);
  EXPECT_EQ(free.points[*free.best].devices, 1024);
  for (size_t i = 1; i < free.points.size(); ++i) {  // larger: sooner, and dearer
    ASSERT_LT(free.points[i].days, free.points[i - 1].days);
    ASSERT_GT(free.points[i].cost, free.points[i - 1].cost);
  }
  request.budget = 0.5 * (free.points[2].cost + free.points[3].cost);
  EXPECT_EQ(scaled(request).best, 2u);
  request.budget = 0;
  request.deadline_days = 0.5 * (free.points[2].days + free.points[3].days);
  EXPECT_EQ(scaled(request).best, 3u);
  request.price_per_device_hour = 0;  // unknown: device hours tell
  EXPECT_EQ(scaled(request).best, 3u);
  request.deadline_days = 0.99 * free.points[4].days;
  const ScalePlan late = scaled(request);
  EXPECT_FALSE(late.best);
  EXPECT_NE(late.verdict.find("none of these counts meets the deadline"), std::string::npos);
  EXPECT_NE(late.verdict.find("with 1,024 devices"), std::string::npos) << late.verdict;
  request.deadline_days = 0;
  request.price_per_device_hour = 2;
  request.budget = 0.99 * free.points[0].cost;
  const ScalePlan dear = scaled(request);
  EXPECT_FALSE(dear.best);
  EXPECT_NE(dear.verdict.find("with 64 devices"), std::string::npos) << dear.verdict;
}

TEST(Scale, GoodputFollowsThePublishedFailureRate) {
  const Place p = place("h100", "stretto");
  Workload w{shape(126, 16384, 128, 128256), 8192, 2048, Precision::amp_bf16};
  w.model.ffn = 53248;
  const Goodput at16k = goodput(p.cluster, p.stack, w, 16384);
  EXPECT_NEAR(at16k.hours_between_failures, 3.05, 0.1);
  EXPECT_GT(at16k.share, 0.8);
  EXPECT_LT(goodput(p.cluster, p.stack, w, 100000).share, at16k.share);
  EXPECT_GT(straggler_wait(0.01, 12500), 0.04);
  EXPECT_LT(straggler_wait(0.01, 12500), 0.05);
}

// tests/checkpoint weighs what is written.
TEST(Scale, CheckpointsTakeWhatTheirSoftwareWrites) {
  const auto bytes = [](const char* software, Precision precision) {
    const Place p = place("a100-80", software);
    const Workload w{shape(2, 128, 4, 256), 128, 8, precision};
    return goodput(p.cluster, p.stack, w, 8).checkpoint_seconds * p.cluster.checkpoint_bandwidth /
           static_cast<double>(parameter_count(w.model));
  };
  for (const Precision p :
       {Precision::fp32, Precision::amp_bf16, Precision::amp_fp16, Precision::amp_fp8}) {
    EXPECT_DOUBLE_EQ(bytes("stretto", p), 12);
  }
  EXPECT_DOUBLE_EQ(bytes("stretto", Precision::bf16), 6);
  EXPECT_DOUBLE_EQ(bytes("megatron-deepspeed-2022", Precision::amp_bf16), 14);
  EXPECT_DOUBLE_EQ(bytes("megatron-deepspeed-2022", Precision::fp32), 12);
}

TEST(Scale, MoreDevicesStopHelpingAtAFixedBatch) {
  const Place p = place("h100", "stretto");
  const Workload w{shape(32, 4096, 32, 50368), 2048, 1024, Precision::amp_bf16};
  ScaleRequest request;
  request.devices = {512, 1024, 2048, 4096, 8192};
  request.tokens = 1e12;
  request.price_per_device_hour = 2;
  const ScalePlan plan = scale_plan(p.cluster, p.stack, w, {}, request);
  ASSERT_EQ(plan.points.size(), 5u);
  EXPECT_TRUE(plan.stops_helping.has_value());
  const std::string svg = scale_chart_svg(plan, "t");
  const auto times = [&](const std::string& part) {
    size_t n = 0;
    for (size_t at = 0; (at = svg.find(part, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(times("<svg"), 1u);
  EXPECT_EQ(times("stroke-dasharray"), 1u);      // perfect scaling
  EXPECT_EQ(times("r=\"7\""), 1u);               // the chosen count
  for (const ScalePoint& point : plan.points) {  // doublings, in full
    EXPECT_EQ(times(fmt::format(">{}<", point.devices)), 1u) << point.devices;
  }
  EXPECT_EQ(times(">0<"), 1u);         // tokens begin at zero
  EXPECT_GE(times("<line"), 5u + 4u);  // a grid both ways
  EXPECT_GT(plan.points[0].cost, 0);
}

TEST(Scale, ChartMarksWhatItCutsOff) {
  ScalePlan plan;
  for (const int64_t devices : {64, 128, 1024}) {
    ScalePoint p;
    p.devices = devices;
    p.feasible = true;
    p.tokens_per_day = 1e9;
    plan.points.push_back(p);
  }
  const std::string bar(50, '#'), ten(10, '=');
  const std::string chart = scale_chart(plan);
  EXPECT_NE(chart.find("       64 " + bar + " 1"), std::string::npos) << chart;
  EXPECT_NE(chart.find("      128 " + bar + ten + "> 1"), std::string::npos) << chart;
  EXPECT_NE(chart.find("     1024 " + bar + ten + "> 1"), std::string::npos) << chart;
}

TEST(Scale, BeyondWhereItStopsHelpingNoDoublingHelps) {
  const Place p = place("h100", "stretto");
  const Workload w{shape(32, 4096, 32, 50368), 2048, 2048, Precision::amp_bf16};
  ScaleRequest request;
  request.devices = {1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
  const ScalePlan plan = scale_plan(p.cluster, p.stack, w, {}, request);
  ASSERT_TRUE(plan.stops_helping.has_value());
  for (const ScalePoint& a : plan.points) {
    for (const ScalePoint& b : plan.points) {
      if (a.devices < plan.points[*plan.stops_helping].devices || b.devices != 2 * a.devices)
        continue;
      EXPECT_LT(b.tokens_per_day, 1.3 * a.tokens_per_day) << a.devices;
    }
  }
}

TEST(Scale, CountsThatCannotBeAreNotCalledUseless) {
  const Place p = place("h100", "stretto");
  const Workload w{shape(32, 4096, 32, 50368), 2048, 64, Precision::amp_bf16};
  Constraints limits;
  limits.dp = 64;
  ScaleRequest request;
  request.devices = {64, 128, 65536};
  const std::string verdict = scale_plan(p.cluster, p.stack, w, limits, request).verdict;
  EXPECT_NE(verdict.find("; beyond 128 nothing fits"), std::string::npos) << verdict;
}

TEST(Scale, ABudgetLooksAtFewDevicesToo) {
  const Place p = place("h100", "stretto");
  const Workload w{shape(32, 4096, 32, 50368), 2048, 1024, Precision::amp_bf16};
  Constraints few;
  few.tp = 8;
  few.micro_batch = 1;
  ScaleRequest request;
  request.tokens = 1e12;
  request.price_per_device_hour = 2;
  EXPECT_EQ(scale_plan(p.cluster, p.stack, w, few, request).points.front().devices, 1024);
  request.deadline_days = 365;
  const ScalePlan plan = scale_plan(p.cluster, p.stack, w, few, request);
  ASSERT_TRUE(plan.best.has_value());
  EXPECT_LT(plan.points[*plan.best].devices, 1024);
  request.price_per_device_hour = 0;  // device hours are what it costs then
  const ScalePlan hours = scale_plan(p.cluster, p.stack, w, few, request);
  ASSERT_TRUE(hours.best.has_value());
  EXPECT_EQ(hours.points[*hours.best].devices, plan.points[*plan.best].devices);
  EXPECT_EQ(hours.verdict.rfind("fewest device hours of these within 365 days", 0), 0u);
  request.price_per_device_hour = 2;
  request.deadline_days = 0;
  request.budget = 1;
  const auto missed = [&] {
    const ScalePlan none = scale_plan(p.cluster, p.stack, w, few, request);
    EXPECT_FALSE(none.best.has_value());
    return none.verdict.substr(0, none.verdict.find('\n'));
  };
  // What comes nearest, of all counts: few devices are cheap, and no more than help are quick.
  EXPECT_EQ(missed().find("none of these counts meets the budget; the cheapest: $"), 0u)
      << missed();
  EXPECT_NE(missed().find(" with 64 devices"), std::string::npos) << missed();
  request.deadline_days = 0.01;
  EXPECT_EQ(missed().find("none of these counts meets the budget and the deadline; the cheapest: "),
            0u);
  request.budget = 0;
  double soonest = 1e9;
  for (const ScalePoint& point : scale_plan(p.cluster, p.stack, w, few, request).points) {
    if (point.feasible) soonest = std::min(soonest, point.days);
  }
  EXPECT_EQ(
      missed().find(fmt::format(
          "none of these counts meets the deadline; the soonest: {:.3g} days with ", soonest)),
      0u)
      << missed();
}

}  // namespace
}  // namespace stretto::plan
