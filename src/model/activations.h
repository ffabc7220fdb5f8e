// Activations of one micro-batch in one model chunk, as views into the rank's memory. A ragged
// micro-batch uses the front of each tensor.
#pragma once

#include <vector>

#include "model/rank_memory.h"

namespace stretto {

// What a layer keeps or computes again, and the gradients inside it. Slots that the model or the
// mode does not have are `none`.
using LayerActivations = PerSaved<Tensor>;
using LayerGradients = PerInner<Tensor>;

struct HeadActivations {
  Tensor stream, norm;  // (rows, C); norm becomes its own gradient
  Tensor mean, rstd;    // (rows)
};

// Everything of (chunk, slot) for a micro-batch of `batch` sequences.
struct ChunkActivations {
  Tensor tokens, targets;  // (B, T) i32
  Tensor output;           // (rows, C); none on the last chunk of the last stage
  std::vector<LayerActivations> layers;
  std::vector<LayerGradients> gradients;
  HeadActivations head;
};

ChunkActivations chunk_activations(const RankMemory& memory, const RankShape& shape, size_t chunk,
                                   int64_t slot, int64_t batch);

// The front of `t` that a micro-batch of `batch` sequences uses.
Tensor fit(const RankShape& shape, Tensor t, int64_t batch);

}  // namespace stretto
