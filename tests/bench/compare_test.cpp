#include "bench/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "bench/sample_record.h"

namespace stretto {
namespace {

RunRecord timed(double level, uint64_t stream) {
  RunRecord r = sample_record();
  const CounterRng rng(11, stream);
  for (size_t i = 0; i < r.steps.size(); ++i) {
    r.steps[i].seconds = level * (1 + 0.01 * rng.normal(i));
  }
  return r;
}

TEST(Compare, FindsFivePercentAndNothingBetweenEquals) {
  int slower = 0, faster = 0, alarms = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    const RunRecord base = timed(0.1, 3 * i);
    slower +=
        compare_records({base}, {timed(0.105, 3 * i + 1)}, 0.01)[0].verdict == Verdict::slower;
    faster +=
        compare_records({base}, {timed(0.095, 3 * i + 2)}, 0.01)[0].verdict == Verdict::faster;
    alarms += compare_records({base}, {timed(0.1, 3 * i + 1)}, 0.01)[0].verdict == Verdict::slower;
  }
  EXPECT_EQ(slower, 20);
  EXPECT_EQ(faster, 20);
  EXPECT_EQ(alarms, 0);
}

// 3 % is far outside the noise, but within a tolerance of 4 %: in neither direction a change.
TEST(Compare, NothingWithinTheToleranceIsAChange) {
  for (uint64_t i = 0; i < 5; ++i) {
    const RunRecord base = timed(0.1, 3 * i);
    for (const double level : {0.097, 0.103}) {
      const RunRecord other = timed(level, 3 * i + 1);
      const Verdict strict = level < 0.1 ? Verdict::faster : Verdict::slower;
      EXPECT_EQ(compare_records({base}, {other}, 0.001)[0].verdict, strict) << level << " " << i;
      const Verdict lenient = compare_records({base}, {other}, 0.04)[0].verdict;
      EXPECT_TRUE(lenient == Verdict::same || lenient == Verdict::unclear) << level << " " << i;
    }
  }
}

// Two runs that took turns on a machine whose speed changes by a third from step to step.
std::pair<RunRecord, RunRecord> in_turns(double slower, uint64_t stream) {
  RunRecord a = sample_record(), b = sample_record();
  const CounterRng weather(12, stream), noise(13, stream);
  a.turns = b.turns = fmt::format("pair {}", stream);
  a.steps.resize(60, a.steps.back());
  b.steps.resize(61, b.steps.back());  // one more: it has no neighbour
  for (size_t i = 0; i < b.steps.size(); ++i) {
    const double speed = 0.1 * (1 + 0.3 * weather.uniform(i));
    if (i < a.steps.size()) a.steps[i].seconds = speed * (1 + 0.02 * noise.normal(2 * i));
    b.steps[i].seconds = slower * speed * (1 + 0.02 * noise.normal(2 * i + 1));
  }
  return {a, b};
}

TEST(Compare, RunsInTurnsAreComparedStepByStep) {
  int found = 0, found_apart = 0, alarms = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    auto [a, b] = in_turns(1.05, i);
    const Comparison c = compare_records({a}, {b}, 0.01)[0];
    EXPECT_TRUE(c.in_turns);
    found += c.verdict == Verdict::slower;
    const auto [x, y] = in_turns(1, 20 + i);
    alarms += compare_records({x}, {y}, 0.01)[0].verdict == Verdict::slower;
    b.turns = "another pair";
    const Comparison apart = compare_records({a}, {b}, 0.01)[0];
    EXPECT_FALSE(apart.in_turns);
    found_apart += apart.verdict == Verdict::slower;
  }
  EXPECT_EQ(found, 20);
  EXPECT_EQ(alarms, 0);
  EXPECT_LT(found_apart, 15);  // without neighbouring steps the machine's changes hide it
}

TEST(Compare, RunsWithoutALabelAreNamedByWhatTheyAre) {
  std::vector<RunRecord> a(3, timed(0.1, 0));
  for (RunRecord& r : a) r.label.clear();
  a[1].config.parallel.tp = 2;
  a[2].config.seed = 99;
  const std::vector<Comparison> all = compare_records(a, a, 0.01);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].label, fmt::format("tiny dp1 tp1 pp1 mbs4 zero0 seed={}", a[0].config.seed));
  EXPECT_EQ(all[1].label, "tiny dp1 tp2 pp1 mbs4 zero0 sp");
  EXPECT_EQ(all[2].label, "tiny dp1 tp1 pp1 mbs4 zero0 seed=99");
  const auto lonely = not_compared(a, {a[0], a[2]});
  ASSERT_EQ(lonely.size(), 1u);
  EXPECT_EQ(lonely[0].name, all[1].label);
}

TEST(Compare, VerdictsOfOneRunEachSaySo) {
  const RunRecord fast = timed(0.1, 0), slow = timed(0.2, 1);
  EXPECT_EQ(compare_records({fast}, {slow}, 0.01)[0].note, "one run each");
  EXPECT_EQ(compare_records({slow}, {fast}, 0.01)[0].note, "one run each");
  EXPECT_EQ(compare_records({fast}, {fast}, 0.01)[0].note, "");
  EXPECT_EQ(compare_records({fast}, {slow, timed(0.2, 2)}, 0.01)[0].note, "");
}

TEST(Compare, ARunThatNoLongerWorksIsBroken) {
  RunRecord bad = timed(0.1, 1);
  bad.status = RunStatus::oom;
  EXPECT_EQ(compare_records({timed(0.1, 0)}, {bad}, 0.01)[0].verdict, Verdict::broken);
  EXPECT_EQ(compare_records({bad}, {timed(0.1, 0)}, 0.01)[0].verdict, Verdict::repaired);
  EXPECT_EQ(compare_records({bad}, {bad}, 0.01)[0].verdict, Verdict::same);
}

// The remaining runs of a side are timed as before; the note must say that some failed.
TEST(Compare, RunsThatFailedAmongOthersAreCounted) {
  RunRecord bad = timed(0.1, 1);
  bad.status = RunStatus::killed;
  const RunRecord one = timed(0.1, 0), two = timed(0.1, 4);
  const Comparison c = compare_records({one, two}, {one, bad, two}, 0.01)[0];
  EXPECT_EQ(c.verdict, Verdict::same);
  EXPECT_EQ(c.note, "1 of 3 runs of B did not end well");
  EXPECT_EQ(compare_records({bad, bad, one}, {one, bad}, 0.01)[0].note,
            "2 of 3 runs of A and 1 of 2 of B did not end well");
  EXPECT_EQ(compare_records({one}, {bad}, 0.01)[0].note, "") << "the verdict says it";
}

TEST(Compare, AStoppedRunIsNoFailure) {
  RunRecord stopped = timed(0.2, 1);
  stopped.status = RunStatus::stopped;
  stopped.warmup = 0;
  ASSERT_TRUE(stopped.counts());
  EXPECT_EQ(compare_records({timed(0.1, 0)}, {stopped}, 0.01)[0].verdict, Verdict::slower);
  stopped.steps.resize(kTimedSteps - 1);
  const Comparison few = compare_records({timed(0.1, 0)}, {stopped}, 0.01)[0];
  EXPECT_EQ(few.verdict, Verdict::unclear);
  EXPECT_EQ(few.note, "too few steps");
  EXPECT_EQ(compare_records({timed(0.1, 0)}, {stopped, timed(0.1, 2)}, 0.01)[0].note, "");
}

// One step on each side has no interval, and two failures no time.
TEST(Compare, SaysWhereNothingCanBeSaid) {
  RunRecord a = timed(0.1, 1), b = timed(0.2, 2);
  b.steps.resize(static_cast<size_t>(b.warmup) + 1);  // the other side has enough
  Comparison c = compare_records({a}, {b}, 0.01)[0];
  EXPECT_EQ(c.verdict, Verdict::unclear);
  EXPECT_EQ(c.note, "too few steps");
  RunRecord elsewhere = b;
  elsewhere.device = "another CPU";
  EXPECT_EQ(compare_records({a}, {elsewhere}, 0.01)[0].note, "other machine; too few steps");
  a.status = b.status = RunStatus::oom;
  a.steps.clear();
  b.steps.clear();
  c = compare_records({a}, {b}, 0.01)[0];
  EXPECT_EQ(c.note, "neither was timed");
}

TEST(Compare, OnlyWhatBothSidesHold) {
  RunRecord other = timed(0.1, 2);
  other.config.seed = 5;
  EXPECT_TRUE(compare_records({timed(0.1, 0)}, {other}, 0.01).empty());
  const auto both =
      compare_records({timed(0.1, 0), other, timed(0.1, 4)}, {other, timed(0.1, 3)}, 0.01);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].runs_a, 2);
  EXPECT_EQ(both[0].runs_b, 1);
}

RunRecord started_by(const char* launcher, double level, uint64_t stream) {
  RunRecord r = timed(level, stream);
  r.launcher = launcher;
  return r;
}

// Ranks as processes are twice as slow here. If both kinds were taken together, the medians of both
// sides would be between the two, and 10 % slower mpirun runs would not show.
TEST(Compare, RanksStartedOtherwiseAreNoRepeats) {
  const std::vector<RunRecord> a = {started_by("threads", 0.1, 0), started_by("mpirun", 0.2, 1),
                                    started_by("threads", 0.1, 2)};
  const std::vector<RunRecord> b = {started_by("mpirun", 0.22, 3), started_by("threads", 0.1, 4)};
  const auto all = compare_records(a, b, 0.01);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].launcher, "threads");
  EXPECT_EQ(all[0].verdict, Verdict::same);
  EXPECT_EQ(all[0].runs_a, 2);
  EXPECT_EQ(all[0].runs_b, 1);
  EXPECT_EQ(all[1].launcher, "mpirun");
  EXPECT_EQ(all[1].verdict, Verdict::slower);
  EXPECT_NEAR(all[1].median_a, 0.2, 0.01);
  EXPECT_TRUE(not_compared(a, b).empty());
}

TEST(Compare, OneWayOfStartingOnEachSideIsComparedWithANote) {
  const RunRecord threads = started_by("threads", 0.1, 0), mpirun = started_by("mpirun", 0.1, 1);
  const RunRecord unknown = started_by("", 0.1, 2);  // a record from before the key
  auto all = compare_records({threads}, {mpirun}, 0.01);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].note, "ranks started differently");
  EXPECT_EQ(all[0].launcher, "");
  EXPECT_EQ(compare_records({unknown}, {mpirun}, 0.01).at(0).note, "");
  // If the other side has both kinds it counts as threads, as most runs are.
  EXPECT_EQ(compare_records({unknown}, {threads, mpirun}, 0.01).at(0).launcher, "threads");
  EXPECT_EQ(not_compared({threads, mpirun}, {unknown}).at(0).record->launcher, "mpirun");
  EXPECT_EQ(compare_records({unknown, threads}, {threads}, 0.01).at(0).runs_a, 2);
  // The kind that both sides have is compared, the other is named.
  all = compare_records({threads, mpirun}, {mpirun}, 0.01);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].launcher, "mpirun");
  EXPECT_EQ(not_compared({threads, mpirun}, {mpirun}).at(0).record->launcher, "threads");
}

TEST(Compare, WideIntervalsAreCalledUnclear) {
  RunRecord wild = sample_record();
  for (size_t i = 0; i < wild.steps.size(); ++i) wild.steps[i].seconds = i % 2 == 0 ? 0.1 : 0.2;
  EXPECT_EQ(compare_records({wild}, {wild}, 0.01)[0].verdict, Verdict::unclear);
}

}  // namespace
}  // namespace stretto
