// What is advised for a layout: it can run, it fits, it helps, and by as much as is said.
#include "plan/advice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "account/flops.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

std::map<std::string, Advice> by_text(const Place& p, const Workload& w, const Candidate& c) {
  std::map<std::string, Advice> out;
  for (const Advice& a : advice_for(p.cluster, p.stack, w, c)) out[a.text] = a;
  return out;
}

double ranked_seconds(const Place& p, const Workload& w, const Layout& l) {
  Estimate e = estimate(p.cluster, p.stack, w, l);
  refine_to_rank(e, w, l);
  return e.seconds;
}

// Micro-batches, sequence parallelism and less recomputation, of layouts with room and without.
TEST(Advice, ChangesOfTheLayoutAreAdvisedWhereTheyFitAndHelp) {
  int advised = 0, too_large = 0, too_little = 0;
  for (const double room : {1.0, 0.6, 0.3, 0.12}) {
    Place p = place("h100", "stretto");
    p.cluster.memory_bytes *= room;
    const Workload w{shape(24, 2048, 16, 50304), 2048, 256, Precision::amp_bf16};
    for (const Checkpointing mode : kCheckpointings) {
      for (const int64_t micro_batch : {1, 2, 8}) {
        Layout l;
        l.dp = 4;
        l.tp = 2;
        l.micro_batch = micro_batch;
        l.zero = 1;
        l.recompute = mode;
        Candidate c = price(p.cluster, p.stack, w, l);
        const auto advice = by_text(p, w, c);
        const auto expect = [&](const Layout& changed, const std::string& text) {
          const MemoryEstimate memory = own_memory(p.cluster, p.stack, w, changed);
          const double seconds = ranked_seconds(p, w, changed);
          const bool fits = memory.fit != Fit::does_not_fit;
          const bool helps = seconds <= c.estimate.seconds * (1 - tie_width(p.stack));
          const double share = memory.needed() / memory.capacity;
          const std::string said =
              share <= kTight
                  ? text
                  : fmt::format("{} (tight: {:.0f} % of the memory)", text, 100 * share);
          ASSERT_EQ(advice.count(said), fits && helps ? 1u : 0u) << said << " of " << describe(l);
          ++(fits && helps ? advised : !fits ? too_large : too_little);
          if (!fits || !helps) return;
          EXPECT_EQ(advice.at(said).before, c.estimate.seconds);
          EXPECT_EQ(advice.at(said).after, seconds);
          EXPECT_FALSE(advice.at(said).changes_model);
        };
        Layout changed = l;
        changed.micro_batch = 2 * micro_batch;
        expect(changed, fmt::format("micro-batch {}: larger products", 2 * micro_batch));
        changed = l;
        changed.sequence_parallel = true;
        expect(changed, "share norms and residuals over the tensor ranks");
        for (const Checkpointing less : kCheckpointings) {
          if (less == mode) break;
          changed = l;
          changed.recompute = less;
          expect(changed, less == Checkpointing::none
                              ? "no recomputation fits"
                              : fmt::format("{} instead of {} recomputation fits", name_of(less),
                                            name_of(mode)));
        }
      }
    }
  }
  EXPECT_GT(advised, 10);
  EXPECT_GT(too_large, 10);
  EXPECT_GT(too_little, 10);
}

// A changed model is compared at equal work: seconds for as many FLOPs as the model asked for.
TEST(Advice, AChangedModelIsComparedAtEqualWork) {
  const Place p = place("h100", "composer-fsdp");
  const Workload w{shape(24, 2080, 16, 50304), 2048, 256, Precision::amp_bf16};
  Layout l;
  l.dp = 8;
  l.zero = 3;
  const Candidate c = price(p.cluster, p.stack, w, l);
  int found = 0;
  for (const Advice& a : advice_for(p.cluster, p.stack, w, c)) {
    if (a.rule != "aligned-hidden") continue;
    ++found;
    EXPECT_TRUE(a.changes_model);
    Workload changed = w;
    changed.model.hidden = a.text.find("hidden 2048 ") == 0 ? 2048 : 2112;
    changed.model.ffn = 4 * changed.model.hidden;
    const auto flops = [](const Workload& work) {
      return flops_per_token(Convention::mpt, work.model, work.seq_len, Checkpointing::none)
          .model_total();
    };
    EXPECT_DOUBLE_EQ(a.after, ranked_seconds(p, changed, l) * flops(w) / flops(changed)) << a.text;
  }
  EXPECT_GT(found, 0);
}

TEST(Advice, TheLargestSavingComesFirst) {
  const Place p = place("a100-80", "composer-fsdp-2022");
  const Workload w{shape(12, 780, 13, 50257), 2048, 512, Precision::amp_bf16};
  Layout l;
  l.dp = 8;
  l.micro_batch = 4;
  l.zero = 3;
  l.recompute = Checkpointing::full;
  const auto list = advice_for(p.cluster, p.stack, w, price(p.cluster, p.stack, w, l));
  ASSERT_GE(list.size(), 3u);
  for (size_t i = 1; i < list.size(); ++i) EXPECT_GE(list[i - 1].saving(), list[i].saving());
  for (const Advice& a : list) EXPECT_GT(a.saving(), 0.001) << a.text;
}

TEST(Advice, DifferencesAreTermByTermTheLargestFirst) {
  const Place p = bloom_place();
  const Workload w = bloom_work(72, 14336, 64);
  const Estimate a = estimate(p.cluster, p.stack, w, bloom_layout(8, 4, 12, 2));
  const Estimate b = estimate(p.cluster, p.stack, w, bloom_layout(8, 8, 6, 4));
  const std::vector<Term> list = difference(a, b);
  ASSERT_EQ(list.size(), terms_of(a).size());
  double sum = 0;
  bool less = false, more = false;
  for (size_t i = 0; i < list.size(); ++i) {
    sum += list[i].seconds;
    less = less || list[i].seconds < 0;
    more = more || list[i].seconds > 0;
    if (i > 0) {
      EXPECT_GE(std::abs(list[i - 1].seconds), std::abs(list[i].seconds));
    }
  }
  EXPECT_TRUE(less && more);
  EXPECT_NEAR(sum, b.seconds - a.seconds, 1e-9 * a.seconds);
}

// However many it takes: the states of three trillion parameters fill hundreds of GPUs.
TEST(Advice, EnoughDevicesAreProposed) {
  const Place p = place("h100", "stretto");
  const Workload w{shape(256, 32768, 256, 50304), 2048, 4096, Precision::amp_bf16};
  Layout l;
  l.recompute = Checkpointing::full;
  const auto change = nearest_fit(p.cluster, p.stack, w, l);
  ASSERT_TRUE(change);
  EXPECT_GE(change->layout.devices(), 512);
  EXPECT_EQ(own_memory(p.cluster, p.stack, w, change->layout).fit, Fit::fits);
}

}  // namespace
}  // namespace stretto::plan
