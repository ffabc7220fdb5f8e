// Advice is what the same estimate finds faster.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/advice.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

// Embedding and head take as long as several layers this small: where each of them counts as a
// layer, the first and the last stage get fewer layers.
TEST(Rebalance, CountsEmbeddingAndHeadWhereThatIsFaster) {
  int advised = 0, seen = 0;
  for (const char* software : {"stretto", "megatron-deepspeed-2022"}) {
    const Place p = place("a100-80", software);
    for (const int64_t layers : {22, 24, 30, 32, 46}) {
      for (const int64_t pp : {2, 4, 8}) {
        const Workload work{shape(layers, 1024, 16, 50304), 1024, 256, Precision::amp_bf16};
        Layout layout;
        layout.pp = pp;
        if (!can_be_cut(p.cluster, p.stack, work, layout)) continue;
        const Candidate candidate = price(p.cluster, p.stack, work, layout);
        Layout counted = layout;
        counted.partition.ends_count = true;
        const bool possible = can_be_cut(p.cluster, p.stack, work, counted);
        const double after = price(p.cluster, p.stack, work, counted).estimate.seconds;
        const double least = std::max(0.001, tie_width(p.stack));
        const bool faster = possible && after < candidate.estimate.seconds * (1 - least);
        const std::vector<Advice> all = advice_for(p.cluster, p.stack, work, candidate);
        const auto found = std::find_if(all.begin(), all.end(), [](const Advice& a) {
          return a.rule == "rebalance" && !a.changes_model;
        });
        EXPECT_EQ(found != all.end(), faster)
            << software << ", " << layers << " layers on " << pp << " stages: " << after << " for "
            << candidate.estimate.seconds;
        ++seen;
        if (found == all.end()) continue;
        ++advised;
        EXPECT_DOUBLE_EQ(found->after, after);
        EXPECT_DOUBLE_EQ(found->before, candidate.estimate.seconds);
      }
    }
  }
  EXPECT_GT(advised, 0);
  EXPECT_LT(advised, seen);
}

}  // namespace
}  // namespace stretto::plan
