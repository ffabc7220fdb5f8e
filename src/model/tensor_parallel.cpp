#include "model/tensor_parallel.h"

namespace stretto {

TensorParallel::TensorParallel(Comm& comm, const RankShape& shape, const RankMemory& memory)
    : comm_(comm), shape_(shape), cut_(shape.gathers_sequence()) {
  if (!cut_) return;
  partial_ = memory.at("work.partial");
  gathered_ = memory.at("work.gathered");
  if (shape.train) dgathered_ = memory.at("work.dgathered");
}

ConstTensor TensorParallel::gather_into(Tensor buffer, ConstTensor x, int64_t batch) {
  if (!cut_) return x;
  const Tensor whole = fit(shape_, buffer, batch);
  comm_.all_gather(whole, x);
  return whole;
}

ConstTensor TensorParallel::gather(ConstTensor x, int64_t batch) {
  return gather_into(gathered_, x, batch);
}

ConstTensor TensorParallel::gather_gradient(ConstTensor dx, int64_t batch) {
  return gather_into(dgathered_, dx, batch);
}

Tensor TensorParallel::partial(Tensor out, int64_t batch) const {
  return cut_ ? fit(shape_, partial_, batch) : out;
}

void TensorParallel::reduce(Tensor out, Tensor partial) {
  if (cut_) {
    comm_.reduce_scatter(out, partial);
  } else {
    comm_.all_reduce(out);
  }
}

}  // namespace stretto
