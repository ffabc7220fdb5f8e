// Activation offload: layers take turns in two sets of device memory. After its forward pass a
// layer's activations go to host memory on the copy lane; before its backward pass they come back,
// while the layer after it computes. Bits never change.
#pragma once

#include <array>
#include <vector>

#include "model/rank_memory.h"

namespace stretto {

class ActivationOffload {
 public:
  ActivationOffload(Backend& backend, const RankShape& shape, const RankMemory& memory);

  // Which layer's activations of which micro-batch.
  struct Place {
    size_t chunk = 0;
    int64_t slot = 0;
    size_t layer = 0;
    bool operator==(const Place&) const = default;
  };

  // Before the forward pass writes: what the set held is safe in host memory.
  void claim(const Place& place);
  // After the forward pass: starts the copy to host memory.
  void store(const Place& place);
  // Starts to bring them back, unless they are still here.
  void fetch(const Place& place);
  // Before the backward pass reads: the compute lane waits until they are here.
  void require(const Place& place);

 private:
  struct Set {
    Tensor bytes;  // all activations of a layer
    Place holds;
    bool filled = false;
    Event copied;   // the last copy in or out
    Event arrived;  // the copy that brought `holds`; none where the forward pass wrote it
  };
  Set& set_of(const Place& place) { return sets_[place.layer % sets_.size()]; }
  void* host(const Place& place) const;
  void follow_compute();  // the copy lane waits for what the compute lane has queued

  Backend& backend_;
  std::array<Set, kOffloadSets> sets_;
  std::vector<std::vector<std::vector<Tensor>>> host_;  // [chunk][slot][layer]
};

}  // namespace stretto
