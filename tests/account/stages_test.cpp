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

TEST(Stages, MicroBatchesInFlight) {
  EXPECT_EQ(in_flight_gpipe(8), (std::vector<int64_t>{8}));
  EXPECT_EQ(in_flight_1f1b(4, 0, 8), (std::vector<int64_t>{4}));
  EXPECT_EQ(in_flight_1f1b(4, 3, 8), (std::vector<int64_t>{1}));
  EXPECT_EQ(in_flight_1f1b(4, 0, 2), (std::vector<int64_t>{2}));
}

TEST(Stages, InterleavedHoldsAtMostWhatRunsAhead) {
  EXPECT_TRUE(rc::check([] {
    const int64_t pp = *rc::gen::inRange<int64_t>(2, 9), v = *rc::gen::inRange<int64_t>(2, 5);
    const int64_t rounds = pp * *rc::gen::inRange<int64_t>(1, 6);
    const int64_t stage = *rc::gen::inRange<int64_t>(0, pp);
    const auto most = in_flight_interleaved(pp, stage, v, rounds);
    const int64_t ahead = std::min(rounds * v, 2 * (pp - stage - 1) + (v - 1) * pp);
    const int64_t sum = std::accumulate(most.begin(), most.end(), int64_t{0});
    RC_ASSERT(*std::min_element(most.begin(), most.end()) >= 1);
    RC_ASSERT(*std::max_element(most.begin(), most.end()) <= rounds);
    RC_ASSERT(sum >= std::min(rounds * v, ahead + 1));  // the maxima may fall at different times
  }));
  // Forward 0 0 1 1, then pairs: F0 B1, F0 B1, F1 B0, ...: chunk 0 holds four before its first B.
  EXPECT_EQ(in_flight_interleaved(2, 0, 2, 4), (std::vector<int64_t>{4, 2}));
}

}  // namespace
}  // namespace stretto
