// One transformer layer: forward, recomputation, backward, and backward split into input and weight
// gradients. Pre-norm: an attention branch, then an MLP branch.
#pragma once

#include "model/blocks/attention.h"
#include "model/blocks/mlp.h"

namespace stretto {

class Layer {
 public:
  Layer(BlockContext& context, int64_t layer)
      : mode_(context.shape.checkpointing), attention_(context, layer), mlp_(context) {}

  // The stream out of the layer. `into` receives it where the last product adds the stream.
  Stream forward(const LayerPass& pass, Stream in, Tensor into);
  // Computes again, bit for bit, what checkpointing did not keep.
  void recompute(const LayerPass& pass);
  // On return the gradients of norms and of biases summed with them are complete; those of the
  // matrices are, too, unless they are deferred.
  void backward(const LayerGradientPass& pass);
  void weight_gradients(const LayerGradientPass& pass);

 private:
  Checkpointing mode_;
  AttentionBlock attention_;
  MlpBlock mlp_;
};

}  // namespace stretto
