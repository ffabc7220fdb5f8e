#include "parallel/simulate.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "base/error.h"

namespace stretto {
namespace {

std::vector<StageTimes> equal_stages(const Schedule& s, StageTimes times) {
  return std::vector<StageTimes>(static_cast<size_t>(s.virtual_stages()), times);
}

double bubble_of(PipelineSchedule kind, int p, int m, int v, StageTimes times) {
  const Schedule s = make_schedule(kind, p, m, v);
  return simulate(s, equal_stages(s, times)).bubble;
}

TEST(Simulate, EqualStagesHaveTheKnownBubble) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 24; ++m) {
      const double expected = static_cast<double>(p - 1) / (m + p - 1);
      const StageTimes times{1, 2, 0, 0, 0};
      EXPECT_NEAR(bubble_of(PipelineSchedule::one_f_one_b, p, m, 1, times), expected, 1e-12);
      EXPECT_NEAR(bubble_of(PipelineSchedule::gpipe, p, m, 1, times), expected, 1e-12);
      EXPECT_NEAR(bubble_of(PipelineSchedule::eager_one_f_one_b, p, m, 1, times), expected, 1e-12);
    }
  }
}

// Messages that take a while cost 1F1B two of them per micro-batch; eager 1F1B has another
// micro-batch at hand and pays for the way there and back only, as GPipe does.
TEST(Simulate, EagerHidesMessages) {
  for (int p = 2; p <= 8; ++p) {
    for (int m = p; m <= 24; ++m) {
      const auto makespan = [&](PipelineSchedule kind) {
        const Schedule s = make_schedule(kind, p, m);
        return simulate(s, equal_stages(s, {1, 2, 0, 0.25, 0.25})).makespan;
      };
      const double eager = makespan(PipelineSchedule::eager_one_f_one_b);
      EXPECT_NEAR(eager, 3 * (m + p - 1) + 0.5 * (p - 1), 1e-9) << p << " " << m;
      EXPECT_LE(eager, makespan(PipelineSchedule::one_f_one_b) + 1e-9) << p << " " << m;
    }
  }
}

// Idle time falls by v: bubble (p-1) / (v m + p - 1) for whole groups of micro-batches.
TEST(Simulate, InterleavingDividesTheBubble) {
  for (int p = 2; p <= 8; ++p) {
    for (int groups = 1; groups <= 4; ++groups) {
      for (int v = 1; v <= 4; ++v) {
        const int m = groups * p;
        const double expected = static_cast<double>(p - 1) / (v * m + p - 1);
        EXPECT_NEAR(bubble_of(PipelineSchedule::interleaved, p, m, v, {1, 2, 0, 0, 0}), expected,
                    1e-12)
            << p << " " << m << " " << v;
      }
    }
  }
}

TEST(Simulate, ZeroBubbleIsNotWorse) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 24; ++m) {
      for (const StageTimes times : {StageTimes{1, 1, 1, 0, 0}, StageTimes{1, 1.2, 0.8, 0, 0},
                                     StageTimes{1, 1, 1, 0.1, 0.1}}) {
        const Schedule zb = make_schedule(PipelineSchedule::zero_bubble, p, m);
        const Schedule one = make_schedule(PipelineSchedule::one_f_one_b, p, m);
        EXPECT_LE(simulate(zb, equal_stages(zb, times)).makespan,
                  simulate(one, equal_stages(one, times)).makespan + 1e-9)
            << "p " << p << " m " << m;
      }
      // With equal parts only the way through the forwards stays: p - 1 of 3 (p - 1).
      if (m >= p) {
        EXPECT_NEAR(bubble_of(PipelineSchedule::zero_bubble, p, m, 1, {1, 1, 1, 0, 0}),
                    static_cast<double>(p - 1) / (3 * m + p - 1), 1e-12)
            << "p " << p << " m " << m;
      }
    }
  }
}

// The closed form of the planner, sum + (m - 1) max over the stages. GPipe takes exactly that. 1F1B
// does when the slowest stage is the last one; a slow stage further ahead works on its later
// forwards while it waits for its first backward, so 1F1B is faster than the formula then.
TEST(Simulate, ClosedFormForUnequalStages) {
  EXPECT_TRUE(rc::check([] {
    const int p = *rc::gen::inRange(1, 9);
    const int m = *rc::gen::inRange(1, 25);
    std::vector<StageTimes> times(static_cast<size_t>(p));
    for (StageTimes& t : times) {
      t.forward = *rc::gen::inRange(1, 30);
      t.backward = 2 * t.forward;
    }
    const auto closed_form = [&] {
      double sum = 0;
      double max = 0;
      for (const StageTimes& t : times) {
        sum += t.forward + t.backward;
        max = std::max(max, t.forward + t.backward);
      }
      return sum + (m - 1) * max;
    };
    const auto slower = [](const StageTimes& a, const StageTimes& b) {
      return a.forward < b.forward;
    };
    const Schedule gpipe = make_schedule(PipelineSchedule::gpipe, p, m);
    const Schedule one = make_schedule(PipelineSchedule::one_f_one_b, p, m);
    RC_ASSERT(simulate(gpipe, times).makespan == closed_form());
    RC_ASSERT(simulate(one, times).makespan <= closed_form());
    std::iter_swap(std::max_element(times.begin(), times.end(), slower), times.end() - 1);
    RC_ASSERT(simulate(one, times).makespan == closed_form());
  }));
}

TEST(Simulate, TransfersDelayAndBlockingIsNeverFaster) {
  EXPECT_TRUE(rc::check([] {
    const int p = *rc::gen::inRange(2, 7);
    const int m = *rc::gen::inRange(1, 17);
    const Schedule s = make_schedule(PipelineSchedule::one_f_one_b, p, m);
    std::vector<StageTimes> times(static_cast<size_t>(p));
    for (StageTimes& t : times) {
      t = {static_cast<double>(*rc::gen::inRange(1, 20)),
           static_cast<double>(*rc::gen::inRange(1, 40)), 0,
           static_cast<double>(*rc::gen::inRange(0, 5)),
           static_cast<double>(*rc::gen::inRange(0, 5))};
    }
    std::vector<StageTimes> free = times;
    for (StageTimes& t : free) t.send_forward = t.send_backward = 0;
    const double with = simulate(s, times).makespan;
    SimulateOptions blocking;
    blocking.asynchronous = false;
    RC_ASSERT(simulate(s, free).makespan <= with);
    RC_ASSERT(with <= simulate(s, times, blocking).makespan);
  }));
}

StageTimes arbitrary_times() {
  const auto pick = [](int most) { return static_cast<double>(*rc::gen::inRange(0, most)); };
  return {1 + pick(20), 1 + pick(40), 1 + pick(20), pick(5), pick(5)};
}

Schedule arbitrary_schedule() {
  const auto kind =
      *rc::gen::element(PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                        PipelineSchedule::zero_bubble, PipelineSchedule::eager_one_f_one_b);
  return make_schedule(kind, *rc::gen::inRange(1, 7), *rc::gen::inRange(1, 17));
}

// A rank that waits until its message has gone might as well have computed for that long.
TEST(Simulate, BlockingMessagesTakeTheRanksTime) {
  EXPECT_TRUE(rc::check([] {
    const Schedule s = arbitrary_schedule();
    std::vector<StageTimes> times, busy;
    for (int stage = 0; stage < s.stages; ++stage) {
      StageTimes t = times.emplace_back(arbitrary_times());
      if (stage + 1 < s.stages) t.forward += t.send_forward;
      if (stage > 0) t.backward += t.send_backward;
      t.send_forward = t.send_backward = 0;
      busy.push_back(t);
    }
    SimulateOptions blocking;
    blocking.asynchronous = false;
    RC_ASSERT(simulate(s, times, blocking).makespan == simulate(s, busy).makespan);
  }));
}

// Work and messages grow with the samples of a micro-batch.
TEST(Simulate, HalfTheSamplesTakeHalfTheTime) {
  EXPECT_TRUE(rc::check([] {
    const Schedule s = arbitrary_schedule();
    std::vector<StageTimes> times;
    for (int stage = 0; stage < s.stages; ++stage) times.push_back(arbitrary_times());
    const std::vector<double> half(static_cast<size_t>(s.micro_batches), 0.5);
    SimulateOptions options;
    options.micro_batch_scale = half;
    const Timeline all = simulate(s, times), halved = simulate(s, times, options);
    RC_ASSERT(halved.makespan == all.makespan / 2);
    RC_ASSERT(std::abs(halved.bubble - all.bubble) < 1e-12);
  }));
}

TEST(Simulate, TimesAreInOrderAndInputsComeFirst) {
  const Schedule s = make_schedule(PipelineSchedule::interleaved, 3, 7, 2);
  const Timeline timeline = simulate(s, equal_stages(s, {1, 2, 0, 0.25, 0.25}));
  std::vector<double> end(static_cast<size_t>(s.virtual_stages() * 7));
  for (int r = 0; r < 3; ++r) {
    double clock = 0;
    for (size_t i = 0; i < s.ranks[static_cast<size_t>(r)].size(); ++i) {
      const TaskTime time = timeline.tasks[timeline.first_task[static_cast<size_t>(r)] + i];
      EXPECT_GE(time.start, clock);
      clock = time.end;
      const Task& task = s.ranks[static_cast<size_t>(r)][i];
      if (task.kind == TaskKind::forward) {
        end[static_cast<size_t>(s.virtual_stage(r, task.chunk) * 7 + task.micro_batch)] = time.end;
      }
    }
  }
  for (int stage = 1; stage < s.virtual_stages(); ++stage) {
    for (int i = 0; i < 7; ++i) {
      EXPECT_GE(end[static_cast<size_t>(stage * 7 + i)],
                end[static_cast<size_t>((stage - 1) * 7 + i)] + 1.25);
    }
  }
}

TEST(Simulate, RaggedMicroBatchesTakeLess) {
  const Schedule s = make_schedule(PipelineSchedule::one_f_one_b, 2, 5);
  const double scale[] = {1, 1, 1, 1, 4.0 / 11};
  SimulateOptions options;
  options.micro_batch_scale = scale;
  EXPECT_LT(simulate(s, equal_stages(s, {1, 2, 0, 0, 0}), options).makespan,
            simulate(s, equal_stages(s, {1, 2, 0, 0, 0})).makespan);
}

TEST(Simulate, RefusesWhatStandsStill) {
  Schedule s = make_schedule(PipelineSchedule::one_f_one_b, 2, 2);
  std::swap(s.ranks[0][0], s.ranks[0][2]);
  EXPECT_THROW(simulate(s, equal_stages(s, {1, 2, 0, 0, 0})), Error);
}

}  // namespace
}  // namespace stretto
