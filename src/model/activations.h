// Activations of one micro-batch in one model chunk, as views into the rank's memory. A ragged
// micro-batch uses the front of each tensor.
#pragma once

#include <vector>

#include "model/rank_memory.h"

namespace stretto {

struct LayerActivations {
  Tensor stream;        // (rows, C)      residual stream coming in
  Tensor mean1, rstd1;  // (rows)
  Tensor norm1;         // (rows, C)
  Tensor qkv;           // (B, T, 3C/tp)
  Tensor att;           // (B, T, C/tp)
  Tensor lse;           // (B, H/tp, T)
  Tensor stream2;       // (rows, C)      after the attention branch
  Tensor mean2, rstd2;  // (rows)
  Tensor norm2;         // (rows, C)
  Tensor pre, act;      // (n, F/tp)      before and after GELU
};

struct LayerGradients {
  Tensor dpre;         // (n, F/tp)
  Tensor dqkv;         // (B, T, 3C/tp)
  Tensor dmlp, dattn;  // (rows, C)  split backward only
};

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
