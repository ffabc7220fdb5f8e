#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/loss_product.h"
#include "backend/operator.h"

namespace stretto::cuda {

// Where our own product that leaves exponentials is faster than the library's with a pass over the
// logits; else the parts do it.
bool CudaBackend::do_linear_loss(const LinearLoss& l) {
  make_current();
  const int64_t rows = l.inp.rows(), n = l.weight.rows(), k = l.weight.last();
  const LossShape shape{rows, n, k};
  const auto fits = [&](ConstTensor t) {
    return t.dtype() == l.inp.dtype() && reinterpret_cast<uintptr_t>(t.data()) % 16 == 0;
  };
  if (l.vocab.begin != 0 || n < k || !fits(l.inp) || !fits(l.weight) || !fits(l.logits) ||
      !fits(l.dinp) || !loss_product_supports(properties_, l.inp.dtype(), shape)) {
    return false;
  }
  const LossRows per_row{static_cast<const int32_t*>(l.targets.data()),
                         static_cast<int>(std::min(n, l.vocab.size)),
                         static_cast<const float*>(l.scale.data()),
                         static_cast<float*>(l.target.data()), static_cast<float*>(l.lse.data())};
  float* const parts = scratch<float>(loss_product_tiles(shape) * rows);
  const auto own = [&] {
    loss_targets(per_row, l.inp.data(), l.weight.data(), shape, stream());
    loss_product(l.logits.data(), parts, per_row, l.inp.data(), l.weight.data(), shape, stream());
  };
  const GemmProblem problem = forward_problem(rows, n, k, l.inp.dtype(), l.logits.dtype());
  const auto pass = [&] {
    logits_to_gradient(l.lse, l.target, l.logits, l.targets, l.scale, l.vocab);
  };
  const Ways ways{{[&] {
                     gemm_.run(problem, {l.weight.data(), l.inp.data(), l.logits.data()});
                     pass();
                   },
                   pass, kPassWeight},
                  {.run = [&] {  // the logits' place stands in for dinp, which may be inp
                    own();
                    loss_rows(l.logits.data(), l.logits.data(), parts, per_row, l.inp.data(), shape,
                              stream());
                    loss_scale_rows(l.logits.data(), per_row, shape, stream());
                  }}};
  if (gemm_.fastest(problem, ways) == 0) return false;

  {
    const Range range(*this, Op::linear_forward, 2 * d(rows) * d(n) * d(k),
                      sizes_of(l.logits, l.inp, l.weight));
    own();
  }
  {
    const Range range(*this, Op::cross_entropy_backward, 0, sizes_of(l.inp, l.dinp));
    loss_rows(l.dinp.data(), l.logits.data(), parts, per_row, l.inp.data(), shape, stream());
    do_cross_entropy_loss(l.loss_sum, l.lse, l.target, l.targets);
  }
  linear_backward_weight(l.dweight, {}, l.dinp, l.logits, l.mode);
  linear_backward_input(l.dinp, l.logits, l.weight);
  const Range range(*this, Op::cross_entropy_backward, 0, 2 * size_of(l.dinp));
  loss_scale_rows(l.dinp.data(), per_row, shape, stream());
  return true;
}

}  // namespace stretto::cuda
