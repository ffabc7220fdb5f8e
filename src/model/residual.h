// The residual stream between two blocks. A backend may be faster at adding a branch to the stream
// inside the branch's last product, or in the norm that follows it; only this page knows which.
#pragma once

#include "model/tensor_parallel.h"

namespace stretto {

// `base`, and what must still be added to it; `branch` is none where nothing must.
struct Stream {
  Tensor base;
  Tensor branch = {};
};

// A norm's operands.
struct NormSlots {
  Tensor out, mean, rstd;
  ConstTensor weight, bias;
};

class Residual {
 public:
  Residual(Backend& backend, TensorParallel& tp, const RankShape& shape, const RankMemory& memory);

  // stream + inp weight^T + bias. `into` receives the sum where the product adds it.
  Stream add_product(Tensor stream, Tensor into, ConstTensor inp, ConstTensor weight,
                     ConstTensor bias, int64_t batch);
  // The norm of the stream. `whole` receives the stream itself; it may be stream.base.
  void norm(Stream stream, Tensor whole, const NormSlots& norm);
  // The stream without a norm.
  void settle(Stream stream, Tensor whole);
  // (rows, C): a branch, or a stream on its way to a layer whose own memory is not ready.
  Tensor scratch(int64_t batch) const { return fit(shape_, scratch_, batch); }

 private:
  Backend& backend_;
  TensorParallel& tp_;
  const RankShape& shape_;
  Tensor scratch_;
  bool in_products_;
};

}  // namespace stretto
