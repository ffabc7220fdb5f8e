#include "account/stages.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

namespace stretto {
namespace {

TEST(Stages, EveryLayerIsHeldOnceAndInOrder) {
  EXPECT_TRUE(rc::check([] {
    const int64_t pp = *rc::gen::inRange<int64_t>(1, 9), v = *rc::gen::inRange<int64_t>(1, 4);
    const int64_t layers = *rc::gen::inRange<int64_t>(pp * v, 100);
    const auto parts = even_partition(layers, pp * v, *rc::gen::arbitrary<bool>());
    RC_ASSERT(std::accumulate(parts.begin(), parts.end(), int64_t{0}) == layers);
    RC_ASSERT(*std::min_element(parts.begin(), parts.end()) >= 1);
    std::vector<int> held(static_cast<size_t>(layers), 0);
    for (int64_t stage = 0; stage < pp; ++stage) {
      const auto chunks = stage_chunks(parts, pp, stage);
      RC_ASSERT(static_cast<int64_t>(chunks.size()) == v);
      for (const auto& chunk : chunks) {
        for (int64_t layer : chunk) ++held[static_cast<size_t>(layer)];
      }
    }
    RC_ASSERT(std::all_of(held.begin(), held.end(), [](int times) { return times == 1; }));
  }));
}

TEST(Stages, TheEndsMayCountAsLayers) {
  EXPECT_EQ(even_partition(70, 12, false).front(), 5);
  EXPECT_EQ(even_partition(70, 12, true),
            (std::vector<int64_t>{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));
  EXPECT_EQ(even_partition(8, 1, true), (std::vector<int64_t>{8}));
  EXPECT_EQ(stage_chunks({2, 2, 2, 2}, 2, 1), (std::vector<std::vector<int64_t>>{{2, 3}, {6, 7}}));
}

}  // namespace
}  // namespace stretto
