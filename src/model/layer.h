// One transformer layer: forward, backward, and the split of backward into input and weight
// gradients. Pre-LayerNorm:
//   stream2 = stream + proj(attention(qkv(ln1(stream))))
//   next    = stream2 + down(gelu(up(ln2(stream2))))
// Where the backend adds in its products (adds_inside()), proj and down write the sums. Else the
// addition is left to the LayerNorm that follows it, which does both in one pass: a layer takes its
// stream as `stream + branch` and hands over (stream2, branch).
#pragma once

#include "model/tensor_parallel.h"
#include "model/weights.h"

namespace stretto {

// The gradient of a bias that is added to the residual stream is the column sum of the stream's
// gradient. Where the pass that writes that gradient can sum it as well, these go with it.
struct StreamBiases {
  bool summed = false;  // this layer's down_bias is done, and proj_bias can be done inside
  Tensor below;         // down_bias of the layer below, to be summed with the gradient it gets
};

class Layer {
 public:
  Layer(Backend& backend, TensorParallel& tp, const RankShape& shape, const RankMemory& memory);

  // `residual`: none when a.stream already holds the input; else a.stream = residual + branch().
  // `next`: receives the output where adds_inside().
  void forward(const LayerWeights& w, const LayerActivations& a, ConstTensor residual, Tensor next,
               int64_t batch);
  // The branches meet the stream inside the products, so that forward() completes its output.
  bool adds_inside() const { return backend_.adds_in_products() && tp_.alone(); }
  // (rows, C): what the layer has still to add to stream2; free where adds_inside().
  Tensor branch(int64_t batch) const;

  // Repeats what checkpointing did not keep, bit for bit.
  void recompute(const LayerWeights& w, const LayerActivations& a, int64_t batch);

  // dstream holds the gradient of the output and becomes that of the input. LayerNorm gradients
  // and fused biases are complete; the matrices wait for weight_gradients() if `deferred`.
  // Where GELU is repeated in place, a.pre becomes its output.
  void backward(const LayerWeights& w, const LayerGrads& dw, const LayerActivations& a,
                const LayerGradients& g, Tensor dstream, Grad mode, bool deferred, int64_t batch,
                const StreamBiases& biases = {});
  void weight_gradients(const LayerWeights& w, const LayerGrads& dw, const LayerActivations& a,
                        const LayerGradients& g, Grad mode, int64_t batch, bool biases_summed);

 private:
  // qkv's bias takes its gradient from proj's, which every rank has whole; not where the sequence
  // is cut over ranks: then one of them has it, and columns are summed as for any other bias.
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
