// Activation offload: layers take turns in two sets of device memory. After its forward pass a
// layer's activations are copied to host memory on the copy lane. Before its backward pass they
// come back, while the layer above it still computes. Results keep their bits.
#pragma once

#include <array>
#include <vector>

#include "model/rank_memory.h"

namespace stretto {

class ActivationOffload {
 public:
  ActivationOffload(Backend& backend, const RankShape& shape, const RankMemory& memory);

  // Names the activations of one layer and micro-batch.
  struct Place {
    size_t chunk = 0;
    int64_t slot = 0;
    size_t layer = 0;
    bool operator==(const Place&) const = default;
  };

  // Before a forward pass writes to a set: waits until its old content is safe in host memory.
  void claim(const Place& place);
  // After the forward pass: starts the copy to host memory.
  void store(const Place& place);
  // Starts the copy back to the device, unless the activations are still there.
  void fetch(const Place& place);
  // Before a backward pass reads: makes the compute lane wait until the activations are there.
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
  void follow_compute();  // makes the copy lane wait for all that is queued on the compute lane

  Backend& backend_;
  std::array<Set, kOffloadSets> sets_;
  std::vector<std::vector<std::vector<Tensor>>> host_;  // [chunk][slot][layer]
};

}  // namespace stretto
