// The final norm, the logits and the loss, on the last pipeline stage. The loss and its gradient
// are computed at once, for one chunk of rows at a time, so that only those logits exist.
#pragma once

#include "model/gradients.h"
#include "model/micro_batch.h"
#include "model/residual.h"
#include "model/table_gradient.h"
#include "model/weights.h"

namespace stretto {

class Head {
 public:
  // `gradients` is null where the rank only runs forward.
  Head(Backend& backend, TensorParallel& tp, Residual& residual, const RankShape& shape,
       const RankMemory& memory, Weights& weights, Gradients* gradients);

  // With `train`, on return slots.norm holds its own gradient.
  void forward(const HeadActivations& slots, ConstTensor targets, Stream in, const MicroBatch& mb,
               bool train);
  // The logits of the rows of the stream, as many as a chunk of the loss has at most.
  ConstTensor logits(const HeadActivations& slots, Stream in);
  // dstream becomes the gradient of the stream. `bias_below`: see BiasGradients; may be none.
  void backward(const HeadActivations& slots, Tensor dstream, Tensor bias_below);

  void begin_step(float loss_scale);

 private:
  void normalise(const HeadActivations& slots, Stream in);
  void loss_rows(ConstTensor inp, Tensor dinp, ConstTensor targets, int64_t micro_batch,
                 bool train);

  Backend& backend_;
  TensorParallel& tp_;
  Residual& residual_;
  const RankShape& shape_;
  Weights& weights_;
  Gradients* gradients_;
  TableGradient table_;
  int64_t vocab_begin_;
  size_t norm_unit_, matrix_unit_;
  ConstTensor norm_weight_, norm_bias_, matrix_;
  Tensor dnorm_weight_, dnorm_bias_, dmatrix_;
  Tensor loss_scale_, logits_, lse_, lse_parts_, target_, loss_sums_;
};

}  // namespace stretto
