// The order of a plan's layouts, and the figures that stand beside each of them.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "account/flops.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

struct Question {
  Place place;
  Workload work;
  int64_t devices;
  Plan plan() const {
    Constraints limits;
    limits.devices = devices;
    return make_plan(place.cluster, place.stack, work, limits);
  }
};

// Our own runtime, whose schedules are simulated, on two scales and where memory is short; ZeRO
// alone; and a software that was fitted.
const std::vector<Question>& questions() {
  static const std::vector<Question> all = {
      {place("h100", "stretto"), {shape(32, 4096, 32, 50368), 2048, 256, Precision::amp_bf16}, 64},
      {place("a100-40", "stretto"),
       {shape(48, 7168, 56, 50368), 2048, 2048, Precision::amp_bf16},
       16},
      {place("h200", "stretto"), {shape(24, 2048, 16, 50368), 2048, 64, Precision::amp_fp8}, 8},
      {place("h100", "composer-fsdp"),
       {shape(32, 4096, 32, 50368), 2048, 256, Precision::amp_bf16},
       8},
      {bloom_place(), bloom_work(70, 14336, 112), 384}};
  return all;
}

Layout without_recomputation(Layout l) {
  l.recompute = Checkpointing::none;
  return l;
}

// Layouts whose seconds cannot be told apart share a tie, and a tie ends where they can.
TEST(SearchOrder, TiesAreCutBySpeed) {
  size_t together = 0;  // layouts that share a tie with the one before them
  for (const Question& q : questions()) {
    SCOPED_TRACE(q.place.cluster.name);
    const Plan plan = q.plan();
    const double width = tie_width(q.place.stack);
    std::vector<std::pair<double, double>> range;  // of each tie: its fastest and slowest
    for (const Candidate& c : plan.ranked) {
      const double s = c.estimate.seconds;
      if (c.tie == range.size()) range.emplace_back(s, s);
      ASSERT_EQ(c.tie + 1, range.size()) << "ties are numbered in order";
      range.back() = {std::min(range.back().first, s), std::max(range.back().second, s)};
    }
    ASSERT_GT(range.size(), 3u);
    together += plan.ranked.size() - range.size();
    for (size_t i = 0; i < range.size(); ++i) {
      EXPECT_LE(range[i].second, range[i].first * (1 + width)) << i;
      if (i == 0) continue;
      EXPECT_GT(range[i].first, range[i - 1].first * (1 + width)) << i;
    }
  }
  EXPECT_GT(together, 100u);
}

// Within a tie, layouts that differ only in recomputation stand together, fastest first, and the
// memory of the fastest decides between them and others.
TEST(SearchOrder, TiesAreOrderedByMemory) {
  int turned = 0;  // neighbours of which the first is slower
  for (const Question& q : questions()) {
    SCOPED_TRACE(q.place.cluster.name);
    const Plan plan = q.plan();
    std::vector<Layout> done;  // kins of this tie that are behind us
    const Candidate* leader = nullptr;
    for (const Candidate& c : plan.ranked) {
      const bool tied = leader != nullptr && leader->tie == c.tie;
      const Layout kin = without_recomputation(c.layout);
      const Candidate* before = &c == plan.ranked.data() ? nullptr : &c - 1;
      if (tied && without_recomputation(leader->layout) == kin) {
        EXPECT_LE(before->estimate.seconds, c.estimate.seconds) << describe(c.layout);
        EXPECT_NE(before->layout.recompute, c.layout.recompute);
        continue;
      }
      if (!tied) done.clear();
      EXPECT_EQ(std::count(done.begin(), done.end(), kin), 0) << describe(c.layout);
      done.push_back(kin);
      if (tied) {
        EXPECT_LE(leader->memory.needed(), c.memory.needed()) << describe(c.layout);
        turned += leader->estimate.seconds > c.estimate.seconds ? 1 : 0;
      }
      leader = &c;
    }
  }
  EXPECT_GT(turned, 10);
}

TEST(SearchOrder, EveryTimeLiesInsideItsInterval) {
  for (const Question& q : questions()) {
    SCOPED_TRACE(q.place.cluster.name);
    const double half = interval_of(q.place.cluster, q.place.stack, q.work, q.devices);
    for (const Candidate& c : q.plan().ranked) {
      const double s = c.estimate.seconds;
      ASSERT_TRUE(0 < c.low && c.low < s && s < c.high) << c.low << " " << s << " " << c.high;
      ASSERT_NEAR(c.low / s, 1 - half, 1e-12) << describe(c.layout);
      ASSERT_NEAR(c.high / s, 1 + half, 1e-12) << describe(c.layout);
    }
  }
}

// However the seconds came about, by formula or by simulation.
TEST(SearchOrder, RatesAreThoseOfTheTimeThatIsShown) {
  for (const Question& q : questions()) {
    SCOPED_TRACE(q.place.cluster.name);
    const auto tokens = static_cast<double>(q.work.global_batch * q.work.seq_len);
    for (const Candidate& c : q.plan().ranked) {
      const Candidate priced = price(q.place.cluster, q.place.stack, q.work, c.layout);
      const double times = priced.estimate.seconds / c.estimate.seconds;
      ASSERT_NEAR(c.tokens_per_second * c.estimate.seconds / tokens, 1, 1e-12);
      ASSERT_NEAR(c.mfu / priced.mfu, times, 1e-12 * times) << describe(c.layout);
      ASSERT_NEAR(c.hfu / priced.hfu, times, 1e-12 * times) << describe(c.layout);
      if (c.layout.recompute == Checkpointing::full) {
        ASSERT_GT(c.hfu, c.mfu);
      }
    }
  }
}

// Otherwise a layout for which the formula is too optimistic could stay ahead of the leaders.
TEST(SearchOrder, WhatIsNotSimulatedIsBehindTheLeadersByMoreThanATie) {
  size_t left = 0;
  for (const Question& q : questions()) {
    SCOPED_TRACE(q.place.cluster.name);
    const Plan plan = q.plan();
    std::vector<double> simulated;
    for (const Candidate& c : plan.ranked) {
      if (c.simulated) simulated.push_back(c.estimate.seconds);
    }
    std::sort(simulated.begin(), simulated.end());
    const double limit = simulated.at(std::min<size_t>(simulated.size(), 50) - 1);
    for (const Candidate& c : plan.ranked) {
      if (c.simulated) continue;
      ++left;
      EXPECT_GT(c.estimate.seconds, limit * (1 + tie_width(q.place.stack))) << describe(c.layout);
    }
  }
  EXPECT_GT(left, 100u);
}

// Of the matrix units at the precision that is asked for; of multiply-adds in fp32.
TEST(SearchOrder, UtilisationIsOfThePeakOfThePrecision) {
  const Workload w{shape(24, 2048, 16, 50368), 2048, 64, Precision::amp_bf16};
  Layout l;
  l.dp = 8;
  const auto peak = [&](const char* cluster, Precision precision) {
    const Place p = place(cluster, "stretto");
    Workload work = w;
    work.precision = precision;
    const Candidate c = price(p.cluster, p.stack, work, l);
    const double flops =
        flops_per_token(Convention::mpt, w.model, w.seq_len, Checkpointing::none).model_total();
    return flops * c.tokens_per_second / c.mfu / 8;
  };
  const Cluster h100 = find_cluster("h100"), a100 = find_cluster("a100-80");
  EXPECT_NEAR(peak("h100", Precision::amp_bf16) / h100.matrix_flops, 1, 1e-12);
  EXPECT_NEAR(peak("h100", Precision::amp_fp8) / h100.matrix_flops_fp8, 1, 1e-12);
  EXPECT_NEAR(peak("h100", Precision::fp32) / h100.vector_flops, 1, 1e-12);
  ASSERT_EQ(a100.matrix_flops_fp8, 0);
  EXPECT_NEAR(peak("a100-80", Precision::amp_fp8) / a100.matrix_flops, 1, 1e-12);
}

// Five times what the runs of the fit are off, and no less than was ever held.
TEST(Interval, FollowsTheFit) {
  Stack s;
  s.fitted = true;
  s.fitted_devices = 0;
  const auto half = [&](double residual) {
    s.residual = residual;
    return interval_of(s, 8);
  };
  EXPECT_DOUBLE_EQ(half(0.02), 0.1);
  EXPECT_DOUBLE_EQ(half(0.001), 0.05);
  EXPECT_DOUBLE_EQ(half(0.2), 0.25);
  s.fitted = false;
  EXPECT_DOUBLE_EQ(half(0.02), 0.25);
}

TEST(Interval, RunsOnFewerDevicesDoNotTellOfLargerNetworks) {
  Stack s;
  s.fitted = true;
  s.residual = 0.01;
  s.fitted_devices = 16;
  EXPECT_DOUBLE_EQ(interval_of(s, 16), 0.05);
  EXPECT_DOUBLE_EQ(interval_of(s, 17), 0.2);
  s.fitted_devices = 0;  // published tables, of all sizes
  EXPECT_DOUBLE_EQ(interval_of(s, 17), 0.05);
  s.fitted = false;
  s.fitted_devices = 16;
  EXPECT_DOUBLE_EQ(interval_of(s, 17), 0.25);
}

// Beside the fit's own: 10 % at 1,000 devices, 20 % at 10,000, 35 % at 100,000.
TEST(Interval, GrowsWithTheDevices) {
  Stack s;
  s.fitted = true;
  s.residual = 0.02;
  const auto added = [&](int64_t devices) {
    const double half = interval_of(s, devices);
    return std::sqrt(half * half - 0.01);
  };
  EXPECT_DOUBLE_EQ(interval_of(s, 398), 0.1);
  EXPECT_NEAR(added(1000), 0.10, 1e-9);
  EXPECT_NEAR(added(10'000), 0.20, 1e-9);
  EXPECT_NEAR(added(100'000), 0.35, 1e-9);
  double last = 0;
  for (int64_t devices = 1; devices < 100'000'000; devices += 1 + devices / 7) {
    const double half = interval_of(s, devices);
    EXPECT_GE(half, last) << devices;
    EXPECT_LE(half, 0.9) << devices;
    last = half;
  }
}

// Of a software that no run taught what odd sizes cost, they are guessed.
TEST(Interval, IsWideWhereASizeIsUntold) {
  Place p = place("h100", "composer-fsdp");
  p.stack.free = {Constant::gemm};
  Workload w{shape(32, 4096, 32, 50368), 2048, 256, Precision::amp_bf16};
  const double told = interval_of(p.stack, 8);
  ASSERT_LT(told, 0.25);
  EXPECT_EQ(untold_size(p.cluster, p.stack, w), 0);
  EXPECT_DOUBLE_EQ(interval_of(p.cluster, p.stack, w, 8), told);
  w.model.vocab = 50257;
  EXPECT_EQ(untold_size(p.cluster, p.stack, w), 50257);
  EXPECT_DOUBLE_EQ(interval_of(p.cluster, p.stack, w, 8), 0.25);
  p.stack.own_runtime = true;  // which pads the vocabulary
  EXPECT_EQ(untold_size(p.cluster, p.stack, w), 0);
  w.model.ffn = 16380;
  EXPECT_EQ(untold_size(p.cluster, p.stack, w), 16380);
  p.stack.free.push_back(Constant::misaligned);
  EXPECT_EQ(untold_size(p.cluster, p.stack, w), 0);
}

TEST(Interval, ATieIsAsWideAsTheFitIsOff) {
  Stack s;
  s.fitted = true;
  const auto width = [&](double residual) {
    s.residual = residual;
    return tie_width(s);
  };
  EXPECT_DOUBLE_EQ(width(0.02), 0.02);
  EXPECT_DOUBLE_EQ(width(0.001), 0.005);
  EXPECT_DOUBLE_EQ(width(0.2), 0.03);
  s.fitted = false;
  EXPECT_DOUBLE_EQ(width(0.02), 0.01);
}

}  // namespace
}  // namespace stretto::plan
