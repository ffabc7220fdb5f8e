// The terms of an estimate and of the memory formula, one by one, against what they stand for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/schedule.h"
#include "plan/network.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

Workload one_b() { return {shape(24, 2048, 16, 50368), 2048, 256, Precision::amp_bf16}; }

// Gradients are reduced during the last micro-batch's backward pass, two thirds of its time.
TEST(Terms, TheReductionHidesBehindTheLastBackwardPass) {
  Place p = place("h100", "stretto");
  ASSERT_TRUE(p.stack.can.overlap_gradients);
  p.stack.constants.set(Constant::interference, 0);
  Layout l;
  l.dp = 16;
  l.micro_batch = 4;
  const auto at = [&](double speed) {
    Place q = p;
    for (Tier& tier : q.cluster.tiers) tier.bytes_per_second *= speed;
    return estimate(q.cluster, q.stack, one_b(), l);
  };
  const auto whole = [&](double speed) {  // of the reduction
    Place q = p;
    q.stack.can.overlap_gradients = false;
    for (Tier& tier : q.cluster.tiers) tier.bytes_per_second *= speed;
    const Estimate e = estimate(q.cluster, q.stack, one_b(), l);
    EXPECT_EQ(e.hidden_comm, 0);
    return e.dp_exposed;
  };
  const Estimate fast = at(10);
  const double window = fast.stage_seconds.at(0) * 2 / 3;
  ASSERT_LT(whole(10), window);
  EXPECT_NEAR(fast.dp_exposed, 0, 1e-12);
  EXPECT_DOUBLE_EQ(fast.hidden_comm, whole(10));
  const Estimate slow = at(0.01);
  ASSERT_GT(whole(0.01), window);
  EXPECT_NEAR(slow.hidden_comm, window, 1e-9 * window);
  EXPECT_NEAR(slow.dp_exposed, whole(0.01) - window, 1e-9 * slow.dp_exposed);
  // What is hidden slows down what it hides behind.
  p.stack.constants.set(Constant::interference, 0.25);
  EXPECT_NEAR(at(0.01).hidden_comm, 0.75 * window, 1e-9 * window);
}

// Of equal stages each schedule idles as docs/parallelism.md says: p - 1 stages' times, of which
// chunks leave a v-th and zero bubble a third.
TEST(Terms, TheBubbleIsThatOfTheSchedule) {
  const Place p = place("h100", "stretto");
  Workload w = one_b();
  w.model.vocab = 64;  // embedding and head weigh next to nothing
  Layout l;
  l.pp = 8;
  const auto idle = [&](PipelineSchedule schedule, int64_t chunks = 1) {
    l.schedule = schedule;
    l.interleave = chunks;
    return estimate(p.cluster, p.stack, w, l);
  };
  const Estimate plain = idle(PipelineSchedule::one_f_one_b);
  const double stage = *std::max_element(plain.stage_seconds.begin(), plain.stage_seconds.end());
  EXPECT_NEAR(plain.bubble / (7 * stage), 1, 0.02);
  EXPECT_DOUBLE_EQ(idle(PipelineSchedule::gpipe).bubble, plain.bubble);
  EXPECT_NEAR(idle(PipelineSchedule::zero_bubble).bubble, plain.bubble / 3, 1e-9 * plain.bubble);
  const Estimate woven = idle(PipelineSchedule::interleaved, 3);
  const double its = *std::max_element(woven.stage_seconds.begin(), woven.stage_seconds.end());
  EXPECT_NEAR(woven.bubble / (7 * its / 3), 1, 0.02);
  for (const auto schedule : {PipelineSchedule::one_f_one_b, PipelineSchedule::zero_bubble}) {
    Estimate e = idle(schedule);
    const double formula = e.bubble;
    refine_by_simulation(e, w, l);
    EXPECT_NEAR(formula / e.bubble, 1, 0.1) << name_of(schedule);
  }
}

// Gathers and scatters of the stream over tensor ranks, in each layer: four forward and four
// backward, or six where sequence parallelism gathers inputs of weight gradients again, eight where
// these come later; recomputation leaves out the last product, and with it its sum or scatter.
TEST(Terms, TensorRanksTalkAsOftenAsTheEngine) {
  const Place p = place("h100", "stretto");
  const Workload w{shape(24, 2048, 16, 50368), 2048, 8, Precision::amp_bf16};
  Layout l;
  l.tp = 4;
  l.pp = 2;
  const double bytes = 2048 * 2048 * 2.0;
  const auto calls = [&](const Stack& stack, PipelineSchedule schedule, bool sequence,
                         Checkpointing mode) {
    l.schedule = schedule;
    l.sequence_parallel = sequence;
    l.recompute = mode;
    const double call = gather_seconds(p.cluster, stack, {4, 4, 1}, bytes);
    const double head = stack.own_runtime ? 2 : 4, embedding = 2;
    // Eight micro-batches, half of all stages' time each.
    const double all = estimate(p.cluster, stack, w, l).tp_exposed / call / 8 * 2;
    return (all - head - embedding) / 24;
  };
  const auto plain = PipelineSchedule::one_f_one_b, split = PipelineSchedule::zero_bubble;
  const auto none = Checkpointing::none, full = Checkpointing::full;
  EXPECT_NEAR(calls(p.stack, plain, false, none), 8, 1e-9);
  EXPECT_NEAR(calls(p.stack, plain, false, full), 10, 1e-9);
  EXPECT_NEAR(calls(p.stack, split, false, none), 8, 1e-9);
  EXPECT_NEAR(calls(p.stack, split, false, full), 12, 1e-9) << "recomputes twice";
  EXPECT_NEAR(calls(p.stack, plain, true, none), 10, 1e-9);
  EXPECT_NEAR(calls(p.stack, plain, true, full), 13, 1e-9);
  EXPECT_NEAR(calls(p.stack, split, true, none), 12, 1e-9);
  EXPECT_NEAR(calls(p.stack, split, true, full), 18, 1e-9);
  Stack other = p.stack;
  other.own_runtime = false;
  EXPECT_NEAR(calls(other, plain, true, full), 12, 1e-9);
}

// Ranks beyond the cores take turns; what one of them idles in the pipeline, another one uses.
TEST(Terms, RanksThatShareCoresWaitForEachOther) {
  Place p = place("local", "stretto");
  p.cluster.time_shared = true;
  p.cluster.devices_per_node = 2;
  const Workload w{shape(8, 256, 4, 1024), 128, 16, Precision::fp32};
  int waits = 0;
  for (const int64_t pp : {1, 2, 4}) {
    for (const int64_t dp : {1, 2, 4}) {
      Layout l;
      l.pp = pp;
      l.dp = dp;
      const Estimate e = estimate(p.cluster, p.stack, w, l);
      const double turns = static_cast<double>(pp * dp) / 2;
      const double work = e.gemm + e.attention + e.passes + e.launches + e.head + e.tp_exposed +
                          e.pp_exposed + e.dp_exposed + e.optimizer;
      const double expected = std::max(0.0, work * (turns - 1) - e.bubble - e.imbalance);
      EXPECT_NEAR(e.core_wait, turns > 1 ? expected : 0, 1e-12 * work) << pp << " " << dp;
      waits += e.core_wait > 0 ? 1 : 0;
    }
  }
  EXPECT_GE(waits, 3);
}

// The most micro-batches of one chunk, or chunks of them, whose activations a rank holds at once.
int64_t most_alive(PipelineSchedule kind, int64_t p, int64_t m, int64_t v, int64_t rank) {
  const Schedule schedule =
      make_schedule(kind, static_cast<int>(p), static_cast<int>(m), static_cast<int>(v));
  int64_t alive = 0, most = 0;
  for (const Task& task : schedule.ranks.at(static_cast<size_t>(rank))) {
    if (task.kind == TaskKind::forward) most = std::max(most, ++alive);
    if (task.kind == TaskKind::backward || task.kind == TaskKind::backward_weight) --alive;
  }
  return most;
}

TEST(Terms, MicroBatchesInFlightAreThoseOfTheSchedule) {
  const Place p = place("h100", "stretto");
  for (const auto schedule :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b, PipelineSchedule::eager_one_f_one_b,
        PipelineSchedule::zero_bubble, PipelineSchedule::interleaved}) {
    for (const auto& [stages, micro_batches] :
         {std::pair<int64_t, int64_t>{2, 2}, {4, 4}, {4, 16}, {8, 8}, {8, 64}, {6, 3}}) {
      if (schedule == PipelineSchedule::interleaved && micro_batches % stages != 0) continue;
      Workload w = one_b();
      w.global_batch = micro_batches;
      Layout l;
      l.pp = stages;
      l.schedule = schedule;
      l.interleave = schedule == PipelineSchedule::interleaved ? 3 : 1;
      const MemoryEstimate m = estimate_memory(p.cluster, p.stack, w, l);
      w.global_batch = 1;
      const double one = estimate_memory(p.cluster, p.stack, w, l).first.checkpoints;
      const auto v = static_cast<double>(l.interleave);
      // With one micro-batch, all chunks of a rank are alive: an interleaved one counts v.
      const auto ratio = [&](const StageMemory& stage) { return v * stage.checkpoints / one; };
      const auto alive = [&](int64_t rank) {
        return static_cast<double>(most_alive(schedule, stages, micro_batches, l.interleave, rank));
      };
      SCOPED_TRACE(fmt::format("{} of {} on {}", name_of(schedule), micro_batches, stages));
      EXPECT_DOUBLE_EQ(ratio(m.first), alive(0));
      if (stages > 2) {
        EXPECT_DOUBLE_EQ(ratio(m.middle), alive(1));
      }
      EXPECT_DOUBLE_EQ(ratio(m.last), alive(stages - 1));
    }
  }
}

// What the formula says of our own runtime is close to the list of tensors, whatever is kept for a
// later backward pass or weight gradient.
TEST(Terms, TheFormulaOfActivationsFollowsTheirList) {
  const Place p = place("h100", "stretto");
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                              PipelineSchedule::eager_one_f_one_b, PipelineSchedule::zero_bubble}) {
    for (const Checkpointing mode : kCheckpointings) {
      const bool kept = mode != Checkpointing::full || schedule == PipelineSchedule::zero_bubble;
      Layout l;
      l.pp = 8;
      l.micro_batch = 4;
      l.schedule = schedule;
      l.recompute = mode;
      const MemoryEstimate formula = estimate_memory(p.cluster, p.stack, one_b(), l);
      const MemoryEstimate list = own_memory(p.cluster, p.stack, one_b(), l);
      SCOPED_TRACE(describe(l) + " " + name_of(schedule));
      EXPECT_NEAR(formula.needed() / list.needed(), 1, kept ? 0.12 : 0.25);
      if (!kept) continue;  // the list counts what is computed again
      EXPECT_NEAR(formula.first.checkpoints / list.first.checkpoints, 1, 0.1);
      EXPECT_NEAR(formula.middle.checkpoints / list.middle.checkpoints, 1, 0.1);
    }
  }
}

}  // namespace
}  // namespace stretto::plan
