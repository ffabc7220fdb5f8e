// A resumed run must see the data that it began with; reading all of it would take too long.
#include "train/data_mark.h"

#include <gtest/gtest.h>

#include <numeric>

namespace stretto {
namespace {

std::vector<int32_t> ids_of(int64_t tokens) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  std::iota(ids.begin(), ids.end(), 7);
  return ids;
}

DataMark mark(std::vector<int32_t> ids) { return mark_of(*memory_tokens("ids", std::move(ids))); }

// Up to 64 x 64 tokens are all in the sample.
TEST(DataMark, EveryTokenOfASmallCorpusCounts) {
  for (const int64_t tokens : {1, 2, 63, 64, 65, 1000, 64 * 64}) {
    const std::vector<int32_t> ids = ids_of(tokens);
    const DataMark whole = mark(ids);
    EXPECT_EQ(whole, mark(ids));
    EXPECT_EQ(whole.tokens, tokens);
    for (int64_t at = 0; at < tokens; at += std::max<int64_t>(1, (tokens - 1) / 37)) {
      std::vector<int32_t> other = ids;
      ++other[static_cast<size_t>(at)];
      EXPECT_NE(mark(other), whole) << at << " of " << tokens;
    }
  }
}

// Whatever stretch was written anew, if it is longer than what lies between two places.
TEST(DataMark, AStretchOfALargeCorpusCountsWhereverItLies) {
  constexpr int64_t kTokens = 100'000, kStretch = kTokens / 63 + 64;
  const std::vector<int32_t> ids = ids_of(kTokens);
  const DataMark whole = mark(ids);
  for (int64_t from = 0; from < kTokens; from += kStretch) {
    std::vector<int32_t> other = ids;
    const int64_t to = std::min(from + kStretch, kTokens);
    for (int64_t i = from; i < to; ++i) ++other[static_cast<size_t>(i)];
    EXPECT_NE(mark(other), whole) << from;
  }
  for (const int64_t at : {int64_t{0}, kTokens - 1}) {  // the ends are in the sample
    std::vector<int32_t> other = ids;
    ++other[static_cast<size_t>(at)];
    EXPECT_NE(mark(other), whole) << at;
  }
}

}  // namespace
}  // namespace stretto
