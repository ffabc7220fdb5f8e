// One transformer layer: forward, backward, and backward split into input and weight gradients.
// Pre-LayerNorm:
//   stream2 = stream + proj(attention(qkv(ln1(stream))))
//   next    = stream2 + down(gelu(up(ln2(stream2))))
// A backend that can add in its products (adds_inside()) makes proj and down write these sums.
// Otherwise the next LayerNorm does the addition in its own pass: a layer gets its stream as
// `stream + branch` and hands over (stream2, branch).
#pragma once

#include "model/tensor_parallel.h"
#include "model/weights.h"

namespace stretto {

// The gradient of a bias that is added to the residual stream is the column sum of the stream's
// gradient. A backend may be able to sum it in the pass that writes that gradient (the backward
// pass of a LayerNorm); then these biases are left to that pass.
struct StreamBiases {
  // This layer's down_bias has been summed, and proj_bias will be by its second LayerNorm.
  bool summed = false;
  Tensor below;  // down_bias of the layer below, to be summed by this layer's first LayerNorm
};

class Layer {
 public:
  Layer(Backend& backend, TensorParallel& tp, const RankShape& shape, const RankMemory& memory);

  // `residual`: none if a.stream already holds the input; else the input is residual + branch(),
  // and a.stream receives it. `next` receives the output where adds_inside().
  void forward(const LayerWeights& w, const LayerActivations& a, ConstTensor residual, Tensor next,
               int64_t batch);
  // Whether the products add their branch to the stream, so that forward() leaves a complete
  // output.
  bool adds_inside() const { return backend_.adds_in_products() && tp_.alone(); }
  // (rows, C): what must still be added to stream2. Unused, so free as scratch, where
  // adds_inside().
  Tensor branch(int64_t batch) const;

  // Computes again, bit for bit, what checkpointing did not keep.
  void recompute(const LayerWeights& w, const LayerActivations& a, int64_t batch);

  // dstream holds the gradient of the output and becomes that of the input. On return the gradients
  // of LayerNorms and of biases summed with them are complete; those of the matrices are, too,
  // unless `deferred` leaves them to weight_gradients(). Where GELU alone is recomputed, a.pre
  // becomes its output.
  void backward(const LayerWeights& w, const LayerGrads& dw, const LayerActivations& a,
                const LayerGradients& g, Tensor dstream, Grad mode, bool deferred, int64_t batch,
                const StreamBiases& biases = {});
  void weight_gradients(const LayerWeights& w, const LayerGrads& dw, const LayerActivations& a,
                        const LayerGradients& g, Grad mode, int64_t batch, bool biases_summed);

 private:
  // The gradient of the qkv bias follows from that of the proj bias, if a rank has the whole of it.
  // With a cut sequence it has not; then columns are summed as for any other bias.
  Tensor column_summed_qkv_bias(const LayerGrads& dw) const;
  bool qkv_bias_from_proj(const LayerGrads& dw) const;
  void attention_block(const LayerWeights& w, const LayerActivations& a, int64_t batch);
  void up(const LayerWeights& w, const LayerActivations& a, int64_t batch);
  bool repeats_gelu_alone() const;
  void row_parallel(Tensor sum, ConstTensor stream, ConstTensor inp, ConstTensor weight,
                    ConstTensor bias, int64_t batch);

  Backend& backend_;
  TensorParallel& tp_;
  const RankShape& shape_;
  AttentionOptions attention_;
  Tensor branch_;        // (rows, C)
  Tensor dnorm_, datt_;  // (rows, C), (n, C/tp)
};

}  // namespace stretto
