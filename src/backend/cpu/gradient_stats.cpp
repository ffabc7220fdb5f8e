// Gradient statistics (norm, zeros, non-finite elements), and what they decide about a step.
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"
#include "base/ceil_div.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gradient_stats.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// out = { sum of squares, zeros, non-finite } of grad[begin, end). Squares are summed in double,
// because in f32 those of small gradients would underflow, and those of scaled f16 gradients
// overflow.
void gradient_stats_range(double* out, ConstTensor grad, int64_t begin, int64_t end) {
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> d;
  const size_t n = static_cast<size_t>(end - begin);
  size_t nonzeros = 0, finite = 0;
  double squares = 0;
  with_float_type(grad.dtype(), [&](auto type) {
    const auto* g = grad.as<decltype(type)>() + begin;
    squares = sum_lanes(
        d64, n, STRETTO_LANES {
          const auto v = load(d, g + i, lanes);  // padding counts as zero and finite
          nonzeros += hn::CountTrue(d, hn::Ne(v, hn::Zero(d)));
          finite += hn::CountTrue(d, hn::IsFinite(v));
          const auto wide = hn::PromoteTo(d64, v);
          return hn::Mul(wide, wide);
        });
  });
  const size_t step = hn::Lanes(d);
  const size_t seen = round_up(n, step);
  out[0] = squares;
  out[1] = static_cast<double>(n - nonzeros);
  out[2] = static_cast<double>(seen - finite);
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(gradient_stats_range);

void CpuBackend::do_gradient_stats(Tensor stats, ConstTensor grad) {
  check_float_types(grad);
  const int64_t n = grad.count();
  const int64_t size = std::max(kPieceElements, ceil_div(n, kMostStatPieces));
  const int64_t pieces = ceil_div(n, size);
  double* partial = static_cast<double*>(gemm_.shared.bytes(static_cast<size_t>(3 * pieces) * 8));
  for_ranges(threads_, n, size, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gradient_stats_range)(partial + 3 * (begin / size), grad, begin, end);
  });
  double* total = stats.as<double>();
  for (int64_t piece = 0; piece < pieces; ++piece) {
    for (int k = 0; k < 3; ++k) total[k] += partial[3 * piece + k];
  }
}

void CpuBackend::do_clip_control(Tensor control, ConstTensor stats, float clip, float grad_scale) {
  const double* s = stats.as<double>();
  float* out = control.as<float>();
  const double norm = std::sqrt(s[0]) * static_cast<double>(grad_scale);
  if (s[2] != 0 || !std::isfinite(norm)) {
    out[0] = 0;
    out[1] = 1;
    return;
  }
  const double limit = static_cast<double>(clip);
  const double shrink = limit > 0 && norm > limit ? limit / norm : 1.0;
  out[0] = static_cast<float>(static_cast<double>(grad_scale) * shrink);
  out[1] = 0;
}

}  // namespace stretto
#endif  // HWY_ONCE
