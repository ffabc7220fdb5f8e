// Which layouts the search looks at: all that the engine takes, nothing else, and nothing twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "config/rules.h"
#include "plan/forecast.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

Workload seven_b() { return {shape(32, 4096, 32, 50368), 2048, 256, Precision::amp_bf16}; }

// The run that a layout stands for.
Config run_of(const Workload& w, const Layout& l) {
  Config c;
  c.model = w.model;
  c.seq_len = w.seq_len;
  c.precision = w.precision;
  c.deterministic = w.deterministic;
  c.device = Device::cuda;
  c.global_batch = w.global_batch;
  c.micro_batch = l.micro_batch;
  c.activation_checkpointing = l.recompute;
  c.parallel.dp = l.dp;
  c.parallel.tp = l.tp;
  c.parallel.pp = l.pp;
  c.parallel.zero = l.zero;
  c.parallel.zero_group = l.zero_group;
  c.parallel.interleave = l.interleave;
  c.parallel.schedule = l.schedule;
  c.parallel.sequence_parallel = l.sequence_parallel;
  c.parallel.partition = l.partition.ends_count ? "transformer+embedding" : "transformer";
  return c;
}

std::set<std::string> broken_rules(const Config& c) {
  std::set<std::string> broken;
  for (const Finding& f : check_config(c)) {
    if (f.severity == Severity::error) broken.insert(f.rule);
  }
  return broken;
}

// What the search looks at is what the engine can run: its own rules, and nothing twice.
TEST(Layouts, EachIsOneThatTheEngineTakes) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 64;
  Workload w = seven_b();
  const std::vector<Layout> layouts = enumerate_layouts(p.cluster, p.stack, w, limits, nullptr);
  std::set<std::string> seen;
  bool bubble = false, hybrid = false;
  for (const Layout& l : layouts) {
    const Config c = run_of(w, l);
    ASSERT_EQ(broken_rules(c), std::set<std::string>{}) << describe(l);
    EXPECT_TRUE(layout_of(c) == l) << describe(l);
    const bool fresh = seen.insert(describe(l)).second;
    EXPECT_TRUE(fresh) << describe(l);
    bubble = bubble || l.schedule == PipelineSchedule::zero_bubble;
    hybrid = hybrid || l.zero_group > 0;
  }
  EXPECT_TRUE(bubble && hybrid);
}

// Rules that only some works can break.
TEST(Layouts, RulesOfOddWorksAreKept) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 24;
  Workload fixed = seven_b();
  fixed.global_batch = 192;
  fixed.deterministic = true;
  Workload many{shape(2, 1024, 512, 50368), 128, 192, Precision::amp_bf16};
  Workload wide{shape(2, 128, 4, 50368), 1, 24 << 18, Precision::amp_bf16};
  for (const Workload& w : {fixed, many, wide}) {
    const std::vector<Layout> layouts = enumerate_layouts(p.cluster, p.stack, w, limits, nullptr);
    EXPECT_FALSE(layouts.empty());
    for (const Layout& l : layouts) {
      ASSERT_EQ(broken_rules(run_of(w, l)), std::set<std::string>{}) << describe(l);
    }
  }
  limits.schedule = PipelineSchedule::zero_bubble;
  EXPECT_THROW(make_plan(p.cluster, p.stack, fixed, limits), Error);
}

// Every batch of a ramp-up is dealt out over the replicas, and interleaved in whole rounds.
TEST(Layouts, ARampUpIsCutIntoWholeBatches) {
  const Place p = place("h100", "stretto");
  Constraints limits;
  limits.devices = 24;
  Config ramp = run_of(seven_b(), {});
  ramp.global_batch = 192;
  ramp.train.ramp_up = {12, 12, 1000};
  const Workload w = workload_of(ramp);
  bool interleaved = false;
  for (const Layout& l : enumerate_layouts(p.cluster, p.stack, w, limits, nullptr)) {
    Config c = run_of(w, l);
    c.train.ramp_up = ramp.train.ramp_up;
    ASSERT_EQ(broken_rules(c), std::set<std::string>{}) << describe(l);
    interleaved = interleaved || l.interleave > 1;
  }
  EXPECT_TRUE(interleaved);
}

// The search's own terms beside the engine's rules: tensor ranks share a node, a pipeline or a
// sharding is none without ranks, a group is what a node holds of a replica, and so on.
bool worth_a_look(const Cluster& cluster, const Layout& l, bool embedding_differs) {
  const int64_t node = cluster.devices_per_node;
  if (l.tp > node || (l.tp == 1 && l.sequence_parallel)) return false;
  if (l.zero > 0 && l.dp == 1) return false;
  if (l.zero_group > 0 && (l.zero_group != node / l.tp || l.zero_group >= l.dp)) return false;
  if (l.partition.ends_count && (!embedding_differs || l.interleave > 1)) return false;
  if (l.interleave > 1) return l.schedule == PipelineSchedule::interleaved;
  return l.schedule == PipelineSchedule::one_f_one_b ||
         (l.schedule == PipelineSchedule::zero_bubble && l.pp > 1);
}

TEST(Layouts, NoneThatTheEngineTakesIsLeftOut) {
  Place p = place("h100", "stretto");
  p.cluster.devices_per_node = 4;
  Constraints limits;
  limits.devices = 16;
  const Workload w{shape(12, 768, 12, 50368), 1024, 32, Precision::amp_bf16};
  std::set<std::string> found, expected;
  for (const Layout& l : enumerate_layouts(p.cluster, p.stack, w, limits, nullptr)) {
    found.insert(describe(l));
  }
  Layout l;
  for (l.tp = 1; l.tp <= 16; ++l.tp) {
    for (l.pp = 1; l.tp * l.pp <= 16; ++l.pp) {
      l.dp = 16 / (l.tp * l.pp);
      if (l.devices() != 16) continue;
      for (l.micro_batch = 1; l.dp * l.micro_batch <= 32; ++l.micro_batch) {
        if (32 % (l.dp * l.micro_batch) != 0) continue;
        for (l.interleave = 1; l.interleave <= 4; l.interleave *= 2) {
          if (12 % (l.pp * l.interleave) != 0 && l.interleave > 1) continue;
          for (const PipelineSchedule schedule : kSearchedSchedules) {
            l.schedule = schedule;
            l.partition.ends_count = false;
            const std::vector<int64_t> plain =
                l.pp <= 12 ? stage_layers(w.model, l) : std::vector<int64_t>{};
            for (const bool embedding : {false, true}) {
              l.partition.ends_count = embedding;
              if (embedding && 14 < 2 * l.pp) continue;
              const bool differs = embedding && stage_layers(w.model, l) != plain;
              for (l.zero = 0; l.zero <= 3; ++l.zero) {
                for (l.zero_group = 0; l.zero_group <= 4; ++l.zero_group) {
                  if (l.zero_group == 1) continue;
                  for (const bool sequence : {false, true}) {
                    l.sequence_parallel = sequence;
                    if (!worth_a_look(p.cluster, l, differs)) continue;
                    l.recompute = Checkpointing::none;
                    if (!broken_rules(run_of(w, l)).empty()) continue;
                    for (const Checkpointing mode : kCheckpointings) {
                      l.recompute = mode;
                      expected.insert(describe(l));
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(expected.size(), 1000u);
  for (const std::string& one : expected) EXPECT_EQ(found.count(one), 1u) << one << " is left out";
  for (const std::string& one : found) EXPECT_EQ(expected.count(one), 1u) << one;
}

// Products are at full speed long before; one that was asked for is tried all the same.
TEST(Layouts, MicroBatchesEndWhereLargerOnesGainNothing) {
  const Place p = place("h100", "stretto");
  const auto largest = [&](int64_t seq_len, std::optional<int64_t> asked) {
    Workload w{shape(12, 768, 12, 50368), seq_len, 4096, Precision::amp_bf16};
    w.model.positions = seq_len;
    Constraints limits;
    limits.devices = 1;
    limits.micro_batch = asked;
    int64_t most = 0;
    for (const Layout& l : enumerate_layouts(p.cluster, p.stack, w, limits, nullptr)) {
      most = std::max(most, l.micro_batch);
    }
    return most;
  };
  EXPECT_EQ(largest(1024, std::nullopt), 512) << "2^19 tokens";
  EXPECT_EQ(largest(65536, std::nullopt), 128) << "sequences";
  EXPECT_EQ(largest(65536, 256), 256);
  EXPECT_EQ(largest(65536, 3), 0) << "does not divide the batch";
}

// Of sizes that are given, all together make up the devices; of some, their product divides them.
TEST(Layouts, SizesThatCannotMakeUpTheDevicesAreRefused) {
  for (const int64_t devices : {1, 8, 12}) {
    for (int64_t dp = 0; dp <= 13; ++dp) {  // 0: not given
      for (int64_t tp = 0; tp <= 13; ++tp) {
        for (int64_t pp = 0; pp <= 13; ++pp) {
          Constraints c;
          c.devices = devices;
          if (dp > 0) c.dp = dp;
          if (tp > 0) c.tp = tp;
          if (pp > 0) c.pp = pp;
          const int64_t product = c.dp.value_or(1) * c.tp.value_or(1) * c.pp.value_or(1);
          const bool all = dp > 0 && tp > 0 && pp > 0;
          const bool good = all ? product == devices : devices % product == 0;
          if (good) {
            EXPECT_NO_THROW(check_division(c));
          } else {
            EXPECT_THROW(check_division(c), Error) << dp << " " << tp << " " << pp;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::plan
