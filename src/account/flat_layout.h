// Where each parameter of one rank is in flat memory, and how data-parallel ranks share that
// memory.
//
// Parameters form units (the token table, the position table, each layer, the head), which are
// gathered, reduced and released as a whole. A unit consists of parts, each with the group of ranks
// that hold the same values: first what tensor-parallel ranks cut, then what they replicate (with
// tp = 1 everything counts as cut). In each part decayed parameters come first. Every part is
// padded, so that every data-parallel rank owns an equal share of it, and so that sums over fixed
// pieces do not depend on dp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "account/parameters.h"

namespace stretto {

struct FlatParameter {
  ParameterSpec spec;
  int64_t offset = 0;  // where the shard begins in the rank's flat buffer
  int64_t count = 0;   // elements of the tensor-parallel shard
};

// The ranks beside this one that hold the same values of a part, apart from data parallelism.
enum class Group {
  none,    // no other: tensor-parallel ranks cut it
  tensor,  // the tensor-parallel ranks
};

// A flat range.
struct FlatRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
};

struct FlatPart {
  Group group = Group::none;
  FlatRange range;    // of the flat buffer; may be empty
  int64_t index = 0;  // among all parts of the layout

  int64_t count() const { return range.count(); }
  // The share that data-parallel rank `rank` of `dp` owns, in the flat buffer, and where that share
  // begins in a buffer of owned shares only.
  FlatRange owned(int64_t dp, int64_t rank) const;
  int64_t shard_begin(int64_t dp) const { return range.begin / dp; }
};

struct FlatUnit {
  std::string name;  // "wte", "wpe", "h.7", "head": for labels
  Role role = Role::layer;
  int64_t layer = -1;
  std::vector<FlatPart> parts;  // one after the other
  std::vector<FlatParameter> parameters;

  int64_t begin() const { return parts.front().range.begin; }
  int64_t end() const { return parts.back().range.end; }
  int64_t count() const { return end() - begin(); }
  const FlatPart& part_of(const FlatParameter& parameter) const;
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
  int64_t part_count() const;
  std::optional<size_t> find(Role role, int64_t layer = -1) const;  // a unit's index
};

// What a rank holds: layers by global index, and whether it has the token table and the head.
struct Holdings {
  std::vector<int64_t> layers;
  bool embedding = true;  // first stage: token and position tables
  bool head = true;       // last stage: ln_f, and the token table or the untied head matrix
};

FlatLayout flat_layout(const ModelShape& model, const Holdings& holdings, int64_t tp, int64_t dp);

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
int64_t pieces_per_part(int64_t dp);  // a multiple of dp
int64_t stat_piece_count(const FlatLayout& layout);

// Segments of equal decay inside a flat range.
std::vector<FlatSegment> decay_segments(const FlatUnit& unit, FlatRange range);

}  // namespace stretto
