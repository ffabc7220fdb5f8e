// Where each parameter of one rank is in flat memory, and how data-parallel ranks share that
// memory.
//
// Parameters form units (the token table, the position table, each layer, the head), which are
// gathered, reduced and released as a whole. A unit consists of two halves: first what
// tensor-parallel ranks cut, then what they replicate (with tp = 1 everything counts as cut). In
// each half decayed parameters come first. Both halves are padded, so that every data-parallel rank
// owns an equal part, and so that sums over fixed pieces do not depend on dp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "account/parameters.h"

namespace stretto {

struct FlatParameter {
  ParameterSpec spec;
  int64_t offset = 0;  // where the shard begins in the rank's flat buffer
  int64_t count = 0;   // elements of the tensor-parallel shard
};

struct FlatUnit {
  std::string name;  // "wte", "wpe", "h.7", "head"
  int64_t layer = -1;
  int64_t begin = 0;  // flat range [begin, end); the cut half is [begin, replicated)
  int64_t replicated = 0;
  int64_t end = 0;
  std::vector<FlatParameter> parameters;

  int64_t count() const { return end - begin; }
};

// A stretch of the flat buffer with one weight-decay setting.
struct FlatSegment {
  int64_t begin = 0;
  int64_t end = 0;
  bool decay = false;
};

struct FlatLayout {
  std::vector<FlatUnit> units;
  int64_t total = 0;
  int64_t dp = 1;

  int64_t shard_total() const { return total / dp; }
  const FlatUnit& unit(const std::string& name) const;
  const FlatParameter& parameter(const std::string& name) const;
};

// What a rank holds: layers by global index, and whether it has the token table and the head.
struct Holdings {
  std::vector<int64_t> layers;
  bool embedding = true;  // first stage: token and position tables
  bool head = true;       // last stage: ln_f, and the token table or the untied head matrix
};

FlatLayout flat_layout(const ModelShape& model, const Holdings& holdings, int64_t tp, int64_t dp);

// A flat range; below: the parts of a unit's halves that data-parallel rank r owns.
struct FlatRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
};
FlatRange owned_cut(const FlatUnit& unit, int64_t dp, int64_t dp_rank);
FlatRange owned_replicated(const FlatUnit& unit, int64_t dp, int64_t dp_rank);

// The stretches of the flat range [begin, end) that a rank owns, and their places in its shard
// buffer, in which the owned parts of all units follow each other.
struct OwnedStretch {
  int64_t flat_begin = 0;
  int64_t count = 0;
  int64_t shard_begin = 0;
};
std::vector<OwnedStretch> owned_stretches(const FlatUnit& unit, FlatRange range, int64_t dp,
                                          int64_t dp_rank);

// Gradient statistics are summed over pieces, in order. The pieces have the same borders for every
// dp that divides kStatPieces, so the gradient norm does not depend on dp.
constexpr int64_t kStatPieces = 16;
int64_t pieces_per_half(int64_t dp);                 // a multiple of dp
int64_t stat_piece_count(const FlatLayout& layout);  // two halves for every unit

// Segments of equal decay inside a flat range.
std::vector<FlatSegment> decay_segments(const FlatUnit& unit, FlatRange range);

}  // namespace stretto
