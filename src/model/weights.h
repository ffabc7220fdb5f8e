// Access to weights: prefetch(), then get(). Replicated weights (ZeRO 0 to 2) are always there.
// Sharded weights (ZeRO 3) are gathered into their unit's buffer, and stay until another unit needs
// that buffer. The layer loop is the same for both. A unit's buffer never moves, so tensors that
// refer to it are made once.
#pragma once

#include <string>
#include <vector>

#include "account/flat_layout.h"
#include "comm/comm.h"
#include "model/rank_memory.h"

namespace stretto {

// The parameters of a layer. One that the model does not have is a `none` tensor.
using LayerWeights = PerWeight<ConstTensor>;
using LayerGrads = PerWeight<Tensor>;

// The parameters of a unit as tensors over `base`, a flat view of the whole unit.
Tensor parameter_in(const FlatUnit& unit, Tensor base, const FlatParameter& parameter, int64_t tp);
// None where the unit has no parameter of that name.
Tensor parameter_in(const FlatUnit& unit, Tensor base, const std::string& name, int64_t tp);
LayerGrads layer_in(const FlatUnit& unit, Tensor base, int64_t tp);

class Weights {
 public:
  Weights(Backend& backend, const RankShape& shape, const FlatLayout& layout, RankMemory& memory,
          Comm& dp);

  const FlatLayout& layout() const { return layout_; }

  void prefetch(size_t unit);  // starts fetching, unless the unit is there already
  // A flat view of the whole unit; a layer's is valid until the layer two further on is fetched.
  Tensor get(size_t unit);
  const LayerWeights& layer(size_t unit);  // get(), as the parameters of a layer
  // A tensor in the unit's buffer; it holds the weights only after get().
  ConstTensor parameter(size_t unit, const std::string& name) const;

  // The share of a unit's part that this rank's optimizer updates.
  Tensor owned(const FlatPart& part);
  // After an update of the owned parts: brings all replicas up to date. With ZeRO 3 gathered copies
  // become invalid.
  void publish();

  size_t unit_index(Role role, int64_t layer = -1) const;  // it must be on this rank

  // Sets elements [begin, begin + count) of a unit from floats on the host, as far as this rank
  // stores them.
  void assign(size_t unit, int64_t begin, const float* values, int64_t count);

 private:
  struct Slot {
    Tensor buffer;
    int64_t unit = -1;
    std::vector<RequestPtr> pending;  // by part
  };
  void make_slots(RankMemory& memory);
  Slot& slot_of(size_t unit);
  void gather(size_t unit, Slot& slot);

  Backend& backend_;
  const RankShape& shape_;
  const FlatLayout& layout_;
  Comm& dp_;
  Tensor flat_;                         // all of it, or the owned shard with ZeRO 3
  std::vector<Slot> slots_;             // ZeRO 3: one per embedding or head unit, two for layers
  std::vector<size_t> slot_index_;      // unit -> slot
  std::vector<Tensor> base_;            // unit -> flat view
  std::vector<LayerWeights> layers_;    // unit -> parameters by role
  std::vector<RequestPtr> publishing_;  // kept for its memory; empty between calls
};

}  // namespace stretto
