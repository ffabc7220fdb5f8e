#include "backend/cpu/fp8.h"

#include <algorithm>
#include <vector>

#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"
#include "base/ceil_div.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/fp8.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

float finite_abs_max(ConstTensor t, int64_t begin, int64_t end) {
  const F32 d;
  auto most = hn::Zero(d);
  with_float_type(t.dtype(), [&](auto tag) HWY_ATTR {
    const auto* from = t.as<decltype(tag)>() + begin;
    for_lanes(
        d, static_cast<size_t>(end - begin), STRETTO_LANES {
          const auto v = load(d, from + i, lanes);
          most = hn::Max(most, hn::IfThenElseZero(hn::IsFinite(v), hn::Abs(v)));
        });
  });
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

template <typename Small>
void round_through(Tensor out, ConstTensor inp, float scale, int64_t begin, int64_t end) {
  const F32 d;
  const auto up = hn::Set(d, scale), down = hn::Set(d, 1 / scale);
  with_float_type(inp.dtype(), [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    const T* from = inp.as<T>() + begin;
    T* to = out.as<T>() + begin;
    for_lanes(
        d, static_cast<size_t>(end - begin), STRETTO_LANES {
          Small small[hn::MaxLanes(F32())];
          store(d, hn::Mul(load(d, from + i, lanes), up), small);
          store(d, hn::Mul(load(d, static_cast<const Small*>(small)), down), to + i, lanes);
        });
  });
}

void quantize_range(Tensor out, ConstTensor inp, DType fp8, float scale, int64_t begin,
                    int64_t end) {
  if (fp8 == DType::f8e4m3) {
    round_through<f8e4m3_t>(out, inp, scale, begin, end);
  } else {
    round_through<f8e5m2_t>(out, inp, scale, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(finite_abs_max);
HWY_EXPORT(quantize_range);

namespace {
void check_fp8(DType fp8) {
  STRETTO_CHECK(fp8 == DType::f8e4m3 || fp8 == DType::f8e5m2, "{}", dtype_name(fp8));
}
}  // namespace

float fp8_scale(ConstTensor t, DType fp8, int threads) {
  check_fp8(fp8);
  const int64_t pieces = ceil_div(t.count(), kPieceElements);
  std::vector<float> most(static_cast<size_t>(pieces));
  for_ranges(threads, t.count(), kPieceElements, [&](int64_t begin, int64_t end) {
    most[static_cast<size_t>(begin / kPieceElements)] =
        HWY_DYNAMIC_DISPATCH(finite_abs_max)(t, begin, end);
  });
  float all = 0;
  for (float x : most) all = std::max(all, x);
  const float largest = fp8 == DType::f8e4m3 ? 448.0f : 57344.0f;
  // A scale beyond float's range would turn zeros into NaN.
  return all > 0 ? std::min(largest / all, 0x1p100f) : 1.0f;
}

void fake_quantize_fp8(Tensor out, ConstTensor inp, DType fp8, float scale, int threads) {
  check_fp8(fp8);
  STRETTO_CHECK(out.count() == inp.count() && out.dtype() == inp.dtype());
  for_ranges(threads, inp.count(), kPieceElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(quantize_range)(out, inp, fp8, scale, begin, end);
  });
}

}  // namespace stretto
#endif  // HWY_ONCE
