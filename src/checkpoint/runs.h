// Which elements of a global tensor a shard holds. A checkpoint only speaks of global elements in
// row-major order, so any layout can read what any other has written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "account/parameters.h"

namespace stretto {

// `repeat` runs of `count` consecutive elements that begin `stride` apart. Columns of a matrix thus
// take one entry, not one per row.
struct StridedRun {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t stride = 0;
  int64_t repeat = 1;
  bool operator==(const StridedRun&) const = default;
};

// A stretch of a shard, and its place in the whole tensor.
struct ShardPiece {
  int64_t position = 0;  // in the shard
  int64_t global_begin = 0;
  int64_t count = 0;
};

// Positions [begin, end) of a tensor-parallel shard as pieces, in shard order. Elements at or
// beyond global element `limit` (rows that pad the vocabulary) are left out.
std::vector<ShardPiece> shard_pieces(const ParameterSpec& spec, int64_t tp, int64_t tp_rank,
                                     int64_t begin, int64_t end, int64_t limit);

std::vector<StridedRun> compress_runs(const std::vector<ShardPiece>& pieces);
std::vector<Run> expand_runs(const std::vector<StridedRun>& runs);
int64_t element_count(const std::vector<StridedRun>& runs);

// What a shard file says of one parameter.
struct Placement {
  std::vector<int64_t> shape;  // of the whole tensor
  std::vector<StridedRun> runs;

  int64_t global_count() const;
};
std::string placement_text(const Placement& placement);
// Throws bad_data unless every run is inside the shape. `name` is for messages.
Placement parse_placement(std::string_view text, const std::string& name);

}  // namespace stretto
