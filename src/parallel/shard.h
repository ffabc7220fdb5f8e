// What is cut where: pure arithmetic on ranges, the same for the trainer and the planner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto {

struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};

// Part i of n elements in `parts` consecutive parts; the first n % parts have one more.
IndexRange even_part(int64_t n, int64_t parts, int64_t i);

// n elements padded up to a multiple of `parts * multiple`, cut into equal parts. `real` is what of
// part i exists; the rest, up to `padded`, is padding.
struct PaddedPart {
  IndexRange padded;
  IndexRange real;
};
PaddedPart padded_part(int64_t n, int64_t parts, int64_t i, int64_t multiple = 1);

// Which buckets of at most `bucket` elements consecutive tensors of these sizes fall into: bucket
// borders in elements, each a border between tensors. A tensor larger than `bucket` is alone.
std::vector<IndexRange> bucket_ranges(const std::vector<int64_t>& sizes, int64_t bucket);

// 48 samples by 11 -> 11, 11, 11, 11, 4.
std::vector<int64_t> micro_batch_sizes(int64_t samples, int64_t micro_batch);

// Layers of each virtual stage (pp * v of them, in model order).
//   "transformer"            layers spread evenly; where they do not divide, the stages at both
//   ends,
//                            which also have the embedding and the head, get fewer
//   "transformer+embedding"  embedding and head count as one layer each
//   "[3,4,5]"                as listed
// Throws Error(bad_config) when a stage would be empty or the list does not fit.
std::vector<IndexRange> stage_partition(const std::string& partition, int64_t layers,
                                        int64_t stages);

// The layers of each chunk of one pipeline rank: chunk c is virtual stage c * pp + pp_rank.
std::vector<std::vector<int64_t>> rank_chunks(const std::vector<IndexRange>& stages, int64_t pp,
                                              int64_t pp_rank);

}  // namespace stretto
