// Which elements of a global tensor a shard holds. A checkpoint speaks of global row-major elements
// only, so that any layout reads what any other wrote.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "account/parameters.h"

namespace stretto {

// `repeat` runs of `count` consecutive elements, their beginnings `stride` apart: columns of a
// matrix cost one entry, not one per row.
struct StridedRun {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t stride = 0;
  int64_t repeat = 1;
  bool operator==(const StridedRun&) const = default;
};

// A stretch of a shard and its place in the whole.
struct ShardPiece {
  int64_t position = 0;  // in the shard
  int64_t global_begin = 0;
  int64_t count = 0;
};

// The pieces of positions [begin, end) of a tensor-parallel shard, in shard order. Elements at or
// beyond global `limit` (rows that pad the vocabulary) are left out.
std::vector<ShardPiece> shard_pieces(const ParameterSpec& spec, int64_t tp, int64_t tp_rank,
                                     int64_t begin, int64_t end, int64_t limit);

std::vector<StridedRun> compress_runs(const std::vector<ShardPiece>& pieces);
std::vector<Run> expand_runs(const std::vector<StridedRun>& runs);
int64_t element_count(const std::vector<StridedRun>& runs);

// What a shard file says of one parameter.
struct Placement {
  std::vector<int64_t> shape;  // of the whole
  std::vector<StridedRun> runs;

  int64_t global_count() const;
};
std::string placement_text(const Placement& placement);
// bad_data unless every run lies inside the shape. `name` is for messages.
Placement parse_placement(std::string_view text, const std::string& name);

}  // namespace stretto
