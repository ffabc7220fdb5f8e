// The MLP branch: stream + down(gelu(up(norm2(stream)))).
#pragma once

#include "model/blocks/pass.h"

namespace stretto {

class MlpBlock {
 public:
  explicit MlpBlock(BlockContext& context) : c_(context) {}

  // `into` receives the output where the product adds the stream.
  Stream forward(const LayerPass& pass, Stream in, Tensor into);
  void norm(const LayerPass& pass, Stream in);
  // From norm2 to the activation.
  void up(const LayerPass& pass);
  // Computes the activation again from its saved input, unless the backward pass does that itself.
  void activation(const LayerPass& pass);
  // Where the activation is recomputed in place, its saved input becomes its output.
  void backward(const LayerGradientPass& pass);
  void weight_gradients(const LayerGradientPass& pass);

 private:
  BlockContext& c_;
};

}  // namespace stretto
