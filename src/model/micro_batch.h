#pragma once

#include <cstdint>

namespace stretto {

// A micro-batch that is being computed: which activations it uses and where its loss goes.
struct MicroBatch {
  int64_t slot = 0;   // of the chunk's activations
  int64_t index = 0;  // among the step's micro-batches on this rank
  int64_t batch = 0;  // sequences; 0 is legal and does nothing
};

}  // namespace stretto
