// What a block of a layer works on.
#pragma once

#include "model/activations.h"
#include "model/bias_gradients.h"
#include "model/residual.h"
#include "model/weights.h"

namespace stretto {

// The keys and values of a layer for all tokens read so far: (1, most tokens, heads, head size).
struct KvCache {
  Tensor keys, values;
};

// One layer and micro-batch of `batch` sequences. With a cache: one sequence, and of it the token
// at `position` alone.
struct LayerPass {
  const LayerWeights& w;
  const LayerActivations& a;
  int64_t batch = 0;
  const KvCache* cache = nullptr;
  int64_t position = 0;
};

struct LayerGradientPass : LayerPass {
  const LayerGrads& dw;
  const LayerGradients& g;
  // The gradient of the output on entry, that of the input on return.
  Tensor dstream;
  Grad mode = Grad::overwrite;  // of matrices
  bool deferred = false;        // gradients of matrices come later, in weight_gradients()
  // The norm above has summed down_bias, and this layer's second norm will sum proj_bias.
  bool biases_summed = false;
  Tensor bias_below = {};  // down_bias of the layer below, for this layer's first norm to sum
};

// What the blocks of a rank share.
struct BlockContext {
  BlockContext(Backend& b, TensorParallel& t, const RankShape& s, const RankMemory& memory)
      : backend(b), tp(t), shape(s), residual(b, t, s, memory), biases(b, s) {
    if (!s.train) return;
    dnorm = memory.at("work.dnorm");
    datt = memory.at("work.datt");
  }

  Backend& backend;
  TensorParallel& tp;
  const RankShape& shape;
  Residual residual;
  BiasGradients biases;
  Tensor dnorm, datt;  // (rows, C), (n, heads x head size / tp)
};

}  // namespace stretto
