// GELU where it is not fused into the linear layer (recomputation).
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gelu.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
#include "backend/cpu/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

void gelu_range(Tensor out, ConstTensor pre, Gelu form, int64_t begin, int64_t end) {
  with_float_type(out.dtype(), [&](auto type) {
    using T = decltype(type);
    T* o = out.as<T>() + begin;
    const T* x = pre.as<T>() + begin;
    const F32 d;
    for_lanes(
        d, static_cast<size_t>(end - begin),
        STRETTO_LANES { store(d, gelu_vec(d, load(d, x + i, lanes), form), o + i, lanes); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(gelu_range);

void CpuBackend::do_gelu_forward(Tensor out, ConstTensor pre, Gelu form) {
  check_float_types(out);
  for_ranges(threads_, out.count(), kPieceElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gelu_range)(out, pre, form, begin, end);
  });
}

}  // namespace stretto
#endif  // HWY_ONCE
