// The closed form against the event simulation of the engine's own schedules.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "plan_support.h"

namespace stretto::plan {
namespace {

RC_GTEST_PROP(Pipeline, ClosedFormEqualsSimulationWhereTheLastStageIsSlowest, ()) {
  const size_t p = *rc::gen::inRange<size_t>(2, 13);
  Estimate e;
  e.forward_share = 0.01 * *rc::gen::inRange(20, 50);
  for (size_t i = 0; i < p; ++i) e.stage_seconds.push_back(0.01 * *rc::gen::inRange(50, 100));
  e.stage_seconds.back() = 1.0;
  Layout l;
  l.pp = static_cast<int64_t>(p);
  l.schedule = *rc::gen::element(PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe);
  Workload w{shape(64, 1024, 16, 50304), 1024, *rc::gen::inRange<int64_t>(1, 200),
             Precision::amp_bf16};
  const double simulated = pipeline_simulated(e, w, l);
  const double formula =
      pipeline_closed_form(e.stage_seconds, static_cast<double>(w.global_batch), 1);
  RC_ASSERT(std::abs(simulated - formula) <= 1e-9 * formula);
}

RC_GTEST_PROP(Pipeline, ClosedFormIsAnUpperBound, ()) {
  const size_t p = *rc::gen::inRange<size_t>(2, 10);
  Estimate e;
  for (size_t i = 0; i < p; ++i) e.stage_seconds.push_back(0.01 * *rc::gen::inRange(20, 100));
  Layout l;
  l.pp = static_cast<int64_t>(p);
  Workload w{shape(64, 1024, 16, 50304), 1024, *rc::gen::inRange<int64_t>(1, 60),
             Precision::amp_bf16};
  RC_ASSERT(pipeline_simulated(e, w, l) <=
            pipeline_closed_form(e.stage_seconds, static_cast<double>(w.global_batch), 1) *
                (1 + 1e-9));
}

TEST(Pipeline, InterleavingDividesTheBubble) {
  Estimate e;
  e.stage_seconds.assign(8, 1.0);
  Layout plain, woven;
  plain.pp = woven.pp = 8;
  woven.interleave = 2;
  woven.schedule = PipelineSchedule::interleaved;
  const Workload w{shape(64, 1024, 16, 50304), 1024, 32, Precision::amp_bf16};
  const double one = pipeline_simulated(e, w, plain) - 32;
  const double two = pipeline_simulated(e, w, woven) - 32;
  EXPECT_NEAR(one, 7.0, 1e-9);
  EXPECT_NEAR(two, 3.5, 0.2);
}

// Equal stages: the formulas of docs/parallelism.md, which the closed form uses, are exact.
RC_GTEST_PROP(Pipeline, ZeroBubbleAndInterleavedFormulasAreExactForEqualStages, ()) {
  const int64_t p = *rc::gen::inRange<int64_t>(2, 9);
  const int64_t m = p * *rc::gen::inRange<int64_t>(1, 5);
  Estimate e;
  e.stage_seconds.assign(static_cast<size_t>(p), 0.03 * *rc::gen::inRange(1, 100));
  e.forward_share = 1.0 / 3;  // forward, input gradient and weight gradient take as long
  const double t = e.stage_seconds[0], dm = static_cast<double>(m), dp = static_cast<double>(p);
  const Workload w{shape(64, 1024, 16, 50304), 1024, m, Precision::amp_bf16};
  Layout l;
  l.pp = p;
  l.schedule = PipelineSchedule::zero_bubble;
  RC_ASSERT(std::abs(pipeline_simulated(e, w, l) - (dm * t + (dp - 1) * t / 3)) <= 1e-9 * dm * t);
  l.schedule = PipelineSchedule::interleaved;
  l.interleave = *rc::gen::inRange<int64_t>(2, 5);
  RC_ASSERT(std::abs(pipeline_simulated(e, w, l) -
                     pipeline_closed_form(e.stage_seconds, dm,
                                          static_cast<double>(l.interleave))) <= 1e-9 * dm * t);
}

TEST(Pipeline, RefiningKeepsTheSumOfTerms) {
  const Place p = place("h100", "stretto");
  const Workload w{shape(48, 7168, 56, 50368), 2048, 512, Precision::amp_bf16};
  Layout l;
  l.dp = 4;
  l.tp = 2;
  l.pp = 8;
  l.interleave = 2;
  l.schedule = PipelineSchedule::interleaved;
  Estimate e = estimate(p.cluster, p.stack, w, l);
  const double rest = e.seconds - e.bubble;
  refine_by_simulation(e, w, l);
  EXPECT_NEAR(e.seconds - e.bubble, rest, 1e-9 * rest);
  EXPECT_GE(e.bubble, 0);
}

}  // namespace
}  // namespace stretto::plan
