// Products with few rows, as in generation. Reading B limits their speed, so B is read once and
// nothing is packed. Each element is the dot product of a row of A and a stored row of B.
#include <algorithm>

#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/targets.h"
#include "base/ceil_div.h"
#include "base/parallel_for.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm_dot.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// x[r] = a[r] . b for `rows` <= 4 rows of f32 A; B is read once for all of them.
template <typename T>
HWY_INLINE void dot_rows(float* x, int64_t x_stride, const float* a, const T* b, int64_t rows,
                         int64_t k) {
  const F32 d;
  const int64_t last = rows - 1;
  const float *a1 = a + HWY_MIN(1, last) * k, *a2 = a + HWY_MIN(2, last) * k, *a3 = a + last * k;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for_lanes(
      d, static_cast<size_t>(k), STRETTO_LANES {
        const auto w = load(d, b + i, lanes);
        s0 = hn::MulAdd(load(d, a + i, lanes), w, s0);
        s1 = hn::MulAdd(load(d, a1 + i, lanes), w, s1);
        s2 = hn::MulAdd(load(d, a2 + i, lanes), w, s2);
        s3 = hn::MulAdd(load(d, a3 + i, lanes), w, s3);
      });
  // Missing rows repeat the last one. They are written first, so that the real one overwrites them.
  x[last * x_stride] = sum_of(d, s3);
  x[HWY_MIN(2, last) * x_stride] = sum_of(d, s2);
  x[HWY_MIN(1, last) * x_stride] = sum_of(d, s1);
  x[0] = sum_of(d, s0);
}

// Columns [begin, end) of all rows into x (m, end - begin).
void dot_columns(const GemmArgs& args, const float* a, float* x, int64_t begin, int64_t end) {
  with_float_type(args.b.type, [&](auto tag) HWY_ATTR {
    const auto* b = static_cast<const decltype(tag)*>(args.b.data);
    for (int64_t j = begin; j < end; ++j) {
      for (int64_t r = 0; r < args.m; r += 4) {
        dot_rows(x + r * (end - begin) + j - begin, end - begin, a + r * args.k,
                 b + j * args.b.stride, std::min<int64_t>(4, args.m - r), args.k);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(dot_columns);

bool supports_dot(const GemmArgs& args) {
  return args.m <= kDotRows && args.b.transposed && !args.a.transposed;
}

void gemm_dot(const GemmArgs& args, GemmContext& context) {
  constexpr int64_t kColumns = 64;  // columns of one piece
  float* a = context.shared.floats(args.m * args.k + 1);
  for (int64_t r = 0; r < args.m; ++r) {
    load_floats(a + r * args.k, element(args.a.data, args.a.type, args.a.stride, r, 0), args.a.type,
                args.k);
  }
  parallel_for(context.threads, ceil_div(args.n, kColumns), [&](int64_t piece) {
    const int64_t begin = piece * kColumns, end = std::min(args.n, begin + kColumns);
    float x[kDotRows * kColumns];
    HWY_DYNAMIC_DISPATCH(dot_columns)(args, a, x, begin, end);
    finish_block(args, x, end - begin, 0, begin, args.m, end - begin);
  });
}

}  // namespace stretto
#endif  // HWY_ONCE
