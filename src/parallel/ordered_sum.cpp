#include "parallel/ordered_sum.h"

namespace stretto {

size_t ordered_sum_scratch(DType type, int64_t count) {
  return type == DType::f32 ? 0 : 2 * arena_round(static_cast<size_t>(count) * sizeof(float));
}

void add_in_order(Backend& backend, Tensor out, std::span<const ConstTensor> parts, void* scratch) {
  if (out.dtype() == DType::f32) {
    for (const ConstTensor& part : parts) backend.add(out, out, part);
    return;
  }
  STRETTO_CHECK(out.dtype() == DType::bf16 || out.dtype() == DType::f16, "a sum of {}",
                dtype_name(out.dtype()));
  const size_t half = ordered_sum_scratch(out.dtype(), out.count()) / 2;
  const Tensor sum(scratch, DType::f32, {out.count()});
  const Tensor wide(static_cast<char*>(scratch) + half, DType::f32, {out.count()});
  const Tensor flat = out.view({out.count()});
  backend.convert(sum, flat);
  for (const ConstTensor& part : parts) {
    backend.convert(wide, part.view({part.count()}));
    backend.add(sum, sum, wide);
  }
  backend.convert(flat, sum);
}

}  // namespace stretto
