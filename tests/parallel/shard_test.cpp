#include "parallel/shard.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace stretto {
namespace {

TEST(Shard, EvenPartsCoverAndBalance) {
  EXPECT_TRUE(rc::check([] {
    const int64_t n = *rc::gen::inRange<int64_t>(0, 100000);
    const int64_t parts = *rc::gen::inRange<int64_t>(1, 100);
    int64_t at = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const IndexRange part = even_part(n, parts, i);
      RC_ASSERT(part.begin == at);
      RC_ASSERT(part.count() == n / parts || part.count() == n / parts + 1);
      at = part.end;
    }
    RC_ASSERT(at == n);
  }));
}

TEST(Shard, PaddedPartsAreEqualAndCoverWhatExists) {
  EXPECT_TRUE(rc::check([] {
    const int64_t n = *rc::gen::inRange<int64_t>(0, 100000);
    const int64_t parts = *rc::gen::inRange<int64_t>(1, 40);
    const int64_t multiple = *rc::gen::element<int64_t>(1, 8, 64, 128);
    const int64_t size = padded_part(n, parts, 0, multiple).padded.count();
    int64_t real = 0;
    for (int64_t i = 0; i < parts; ++i) {
      const PaddedPart part = padded_part(n, parts, i, multiple);
      RC_ASSERT(part.padded.begin == size * i && part.padded.count() == size);
      RC_ASSERT(part.real.begin == real || part.real.count() == 0);
      RC_ASSERT(part.real.count() <= size);
      real += part.real.count();
    }
    RC_ASSERT(real == n);
    RC_ASSERT(size % multiple == 0 && size * parts - n < parts * multiple);
  }));
  EXPECT_EQ(padded_part(50257, 4, 3, 32).padded, (IndexRange{37728, 50304}));
  EXPECT_EQ(padded_part(50257, 4, 3, 32).real, (IndexRange{37728, 50257}));
}

TEST(Shard, BucketsCoverWholeTensors) {
  EXPECT_TRUE(rc::check([] {
    const auto sizes = *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 500));
    const int64_t bucket = *rc::gen::inRange<int64_t>(1, 1000);
    std::vector<int64_t> borders{0};
    for (const int64_t size : sizes) borders.push_back(borders.back() + size);
    int64_t at = 0;
    for (const IndexRange& range : bucket_ranges(sizes, bucket)) {
      RC_ASSERT(range.begin == at);
      RC_ASSERT(std::find(borders.begin(), borders.end(), range.end) != borders.end());
      const bool one_tensor = std::find(sizes.begin(), sizes.end(), range.count()) != sizes.end();
      RC_ASSERT(range.count() <= bucket || one_tensor);
      at = range.end;
    }
    RC_ASSERT(at == borders.back());
  }));
}

TEST(Shard, MicroBatchesMayBeRagged) {
  EXPECT_EQ(micro_batch_sizes(48, 11), (std::vector<int64_t>{11, 11, 11, 11, 4}));
  EXPECT_EQ(micro_batch_sizes(8, 4), (std::vector<int64_t>{4, 4}));
  EXPECT_TRUE(micro_batch_sizes(0, 4).empty());
}

std::vector<int64_t> counts(const std::string& partition, int64_t layers, int64_t stages) {
  std::vector<int64_t> out;
  for (const IndexRange& r : stage_partition(partition, layers, stages)) out.push_back(r.count());
  return out;
}

TEST(Shard, StagePartitions) {
  using V = std::vector<int64_t>;
  EXPECT_EQ(counts("transformer", 8, 4), (V{2, 2, 2, 2}));
  EXPECT_EQ(counts("transformer", 10, 4), (V{2, 3, 3, 2}));
  EXPECT_EQ(counts("transformer+embedding", 70, 12), (V{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));
  EXPECT_EQ(counts("transformer+embedding", 7, 1), (V{7}));
  EXPECT_EQ(counts("[3, 4,5]", 12, 3), (V{3, 4, 5}));
  for (const char* bad : {"[3,4]", "[3,4,6]", "[0,6,6]", "[3,4,5", "3,4,5", "[]", "[a]", "[3,,9]",
                          "[-1,6,7]", "[9223372036854775807,9223372036854775807,14]", "even"}) {
    EXPECT_THROW(stage_partition(bad, 12, 3), Error) << bad;
  }
  EXPECT_THROW(stage_partition("transformer", 3, 4), Error);
}

TEST(Shard, StagesCoverAndBalance) {
  EXPECT_TRUE(rc::check([] {
    const int64_t stages = *rc::gen::inRange<int64_t>(1, 33);
    const int64_t layers = *rc::gen::inRange<int64_t>(stages, 130);
    const auto all = stage_partition("transformer", layers, stages);
    int64_t at = 0;
    for (const IndexRange& r : all) {
      RC_ASSERT(r.begin == at);
      RC_ASSERT(r.count() == layers / stages || r.count() == layers / stages + 1);
      at = r.end;
    }
    RC_ASSERT(at == layers);
    RC_ASSERT(all.back().count() <= all[all.size() / 2].count());
  }));
}

TEST(Shard, ChunksOfAllRanksAreTheModel) {
  const auto stages = stage_partition("transformer", 13, 6);
  std::vector<int64_t> seen;
  for (int64_t chunk = 0; chunk < 2; ++chunk) {
    for (int64_t rank = 0; rank < 3; ++rank) {
      const auto chunks = rank_chunks(stages, 3, rank);
      ASSERT_EQ(chunks.size(), 2u);
      const auto& layers = chunks[static_cast<size_t>(chunk)];
      seen.insert(seen.end(), layers.begin(), layers.end());
    }
  }
  std::vector<int64_t> expected(13);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace stretto
