// The embedding of tokens and positions, on the first pipeline stage.
#pragma once

#include "model/gradients.h"
#include "model/tensor_parallel.h"
#include "model/weights.h"

namespace stretto {

class Embedding {
 public:
  // `gradients` is null where the rank only runs forward.
  Embedding(Backend& backend, TensorParallel& tp, const RankShape& shape, Weights& weights,
            Gradients* gradients);

  void forward(Tensor stream, ConstTensor tokens, int64_t batch, int64_t first_position = 0);
  void backward(ConstTensor dstream, ConstTensor tokens, int64_t batch);

 private:
  bool positions() const { return !wpe_.none(); }

  Backend& backend_;
  TensorParallel& tp_;
  Weights& weights_;
  Gradients* gradients_;
  int64_t vocab_begin_;
  size_t token_unit_ = 0, position_unit_ = 0;
  ConstTensor wte_, wpe_;
  Tensor dwte_, dwpe_;
};

}  // namespace stretto
