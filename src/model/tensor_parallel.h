// The collectives of tensor parallelism, named by what they mean to a layer. With sequence
// parallelism each rank holds some rows of the residual stream: gather() collects all rows before a
// column-parallel product, reduce() adds up the partial results of a row-parallel product and deals
// the rows out again. Without it every rank holds all rows, and reduce() is an all-reduce in place.
#pragma once

#include "comm/comm.h"
#include "model/activations.h"

namespace stretto {

class TensorParallel {
 public:
  TensorParallel(Comm& comm, const RankShape& shape, const RankMemory& memory);

  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  bool alone() const { return comm_.size() == 1 && !cut_; }  // nothing is added over ranks
  Comm& comm() { return comm_; }

  // All rows of `x` (rows, C) -> (n, C). Valid until the next gather() into the same buffer.
  ConstTensor gather(ConstTensor x, int64_t batch);
  ConstTensor gather_gradient(ConstTensor dx, int64_t batch);  // a second buffer, for backward

  // Where a row-parallel product should write its partial result for reduce(): `out` itself if
  // nothing has to be added or dealt out.
  Tensor partial(Tensor out, int64_t batch) const;
  // Adds the partial results of all ranks into `out`.
  void reduce(Tensor out, Tensor partial);

  // A bias that is added before the sum over ranks must be added by one rank only, or it would
  // count tp times.
  ConstTensor once(ConstTensor bias) const { return rank() == 0 ? bias : ConstTensor(); }
  // The gradient of a replicated parameter, where every rank could compute all of it. With a cut
  // sequence such gradients are summed over ranks later, so only one rank may compute it.
  Tensor once(Tensor dbias) const { return cut_ && rank() != 0 ? Tensor() : dbias; }

 private:
  ConstTensor gather_into(Tensor buffer, ConstTensor x, int64_t batch);

  Comm& comm_;
  const RankShape& shape_;
  bool cut_;                               // the residual stream is cut over ranks
  Tensor partial_, gathered_, dgathered_;  // (n, C)
};

}  // namespace stretto
