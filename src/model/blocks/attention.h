// The attention branch: stream + proj(attention(qkv(norm1(stream)))).
#pragma once

#include "model/blocks/pass.h"

namespace stretto {

class AttentionBlock {
 public:
  AttentionBlock(BlockContext& context, int64_t layer);

  Stream forward(const LayerPass& pass, Stream in);
  // From norm1 on, when the saved stream is whole.
  Stream from_norm(const LayerPass& pass);
  void norm(const LayerPass& pass, Stream in);
  void backward(const LayerGradientPass& pass);
  void weight_gradients(const LayerGradientPass& pass);

 private:
  void qkv_bias_from_proj(const LayerGradientPass& pass);

  BlockContext& c_;
  AttentionOptions options_;
};

}  // namespace stretto
