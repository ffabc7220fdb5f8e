// Element-wise sum.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/add.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

void add_range(Tensor out, ConstTensor a, ConstTensor b, int64_t begin, int64_t end) {
  with_float_type(out.dtype(), [&](auto type) {
    using T = decltype(type);
    T* o = out.as<T>() + begin;
    const T* x = a.as<T>() + begin;
    const T* y = b.as<T>() + begin;
    const F32 d;
    for_lanes(
        d, static_cast<size_t>(end - begin), STRETTO_LANES {
          store(d, hn::Add(load(d, x + i, lanes), load(d, y + i, lanes)), o + i, lanes);
        });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(add_range);

void CpuBackend::do_add(Tensor out, ConstTensor a, ConstTensor b) {
  check_float_types(out);
  for_ranges(threads_, out.count(), kPieceElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_range)(out, a, b, begin, end);
  });
}

}  // namespace stretto
#endif  // HWY_ONCE
