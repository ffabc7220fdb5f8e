// Which runs `plan calibrate` may propose to measure next.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/records.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

Observation run_of(const Workload& work, const Layout& layout) {
  Observation o;
  o.id = o.same_as = describe(layout);
  o.work = work;
  o.layout = layout;
  o.seconds = 1;
  o.memory = 1e9;
  return o;
}

bool is_in(const std::vector<Observation>& runs, const Layout& layout) {
  return std::any_of(runs.begin(), runs.end(),
                     [&](const Observation& o) { return o.layout == layout; });
}

// The layouts that the search knows, but what has been run and what does not fit.
TEST(CandidateRuns, AreTheLayoutsThatFitAndHaveNotBeenRun) {
  const Place p = place("a100-80", "stretto");
  const Workload work{shape(32, 4096, 32, 50368), 2048, 64, Precision::amp_bf16};
  Constraints limits;
  limits.devices = 4;
  const std::vector<Layout> layouts = enumerate_layouts(p.cluster, p.stack, work, limits, nullptr);
  const auto fits = [&](const Layout& layout) {
    return estimate_memory(p.cluster, p.stack, work, layout).fit == plan::Fit::fits;
  };
  const auto first = std::find_if(layouts.begin(), layouts.end(), fits);
  ASSERT_NE(first, layouts.end());
  ASSERT_FALSE(std::all_of(layouts.begin(), layouts.end(), fits));
  const std::vector<Observation> rows = {run_of(work, *first)};
  const std::vector<Observation> candidates = candidate_runs(p.cluster, p.stack, rows);
  EXPECT_FALSE(candidates.empty());
  EXPECT_FALSE(is_in(candidates, *first));
  for (const Observation& c : candidates) {
    EXPECT_TRUE(std::find(layouts.begin(), layouts.end(), c.layout) != layouts.end()) << c.id;
    EXPECT_TRUE(fits(c.layout)) << c.id;
    EXPECT_EQ(c.id, describe(c.layout));
    EXPECT_EQ(c.seconds, 0) << "not measured";
    EXPECT_EQ(c.memory, 0) << "not measured";
    EXPECT_EQ(c.work.model, work.model);
  }
  // With all of them run there is nothing left to propose.
  std::vector<Observation> all = rows;
  for (const Observation& c : candidates) all.push_back(run_of(work, c.layout));
  EXPECT_TRUE(candidate_runs(p.cluster, p.stack, all).empty());
}

// One model's runs say nothing about which layouts of another have been run.
TEST(CandidateRuns, EveryObservedModelHasItsOwn) {
  const Place p = place("a100-80", "stretto");
  std::vector<Observation> rows;
  Layout layout;
  layout.dp = 2;
  for (const int64_t layers : {4, 6}) {
    rows.push_back(run_of({shape(layers, 1024, 8, 50368), 2048, 16, Precision::amp_bf16}, layout));
    rows.push_back(rows.back());  // the same run twice
  }
  const std::vector<Observation> both = candidate_runs(p.cluster, p.stack, rows);
  const std::vector<Observation> first = candidate_runs(p.cluster, p.stack, {rows[0]});
  const std::vector<Observation> second = candidate_runs(p.cluster, p.stack, {rows[2]});
  EXPECT_FALSE(first.empty());
  EXPECT_FALSE(second.empty());
  EXPECT_EQ(both.size(), first.size() + second.size());
}

}  // namespace
}  // namespace stretto::plan
