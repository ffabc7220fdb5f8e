#include "model/residual.h"

namespace stretto {

Residual::Residual(Backend& backend, TensorParallel& tp, const RankShape& shape,
                   const RankMemory& memory)
    : backend_(backend),
      tp_(tp),
      shape_(shape),
      scratch_(memory.at("work.branch")),
      in_products_(backend.adds_in_products() && tp.alone()) {}

Stream Residual::add_product(Tensor stream, Tensor into, ConstTensor inp, ConstTensor weight,
                             ConstTensor bias, int64_t batch) {
  if (in_products_) {
    backend_.linear_forward(into, inp, weight, bias, {.addend = stream});
    return {into};
  }
  const Tensor out = scratch(batch), partial = tp_.partial(out, batch);
  backend_.linear_forward(partial, inp, weight, tp_.once(bias));
  tp_.reduce(out, partial);
  return {stream, out};
}

void Residual::norm(Stream stream, Tensor whole, const NormSlots& n) {
  if (stream.branch.none()) {
    settle(stream, whole);
    backend_.layernorm_forward(n.out, n.mean, n.rstd, whole, n.weight, n.bias);
  } else {
    backend_.residual_layernorm_forward(whole, n.out, n.mean, n.rstd, stream.base, stream.branch,
                                        n.weight, n.bias);
  }
}

void Residual::settle(Stream stream, Tensor whole) {
  if (!stream.branch.none()) {
    backend_.add(whole, stream.base, stream.branch);
  } else if (stream.base.data() != whole.data()) {
    backend_.copy(whole, stream.base);
  }
}

}  // namespace stretto
