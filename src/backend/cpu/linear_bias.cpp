#include "backend/cpu/linear_bias.h"

#include <algorithm>

#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"
#include "base/ceil_div.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/linear_bias.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// partial[0, width) = sum over rows [begin, end) of t; four rows per pass over `partial`.
void sum_rows(float* partial, size_t width, ConstTensor t, int64_t begin, int64_t end) {
  const F32 d;
  const int64_t columns = t.last();
  std::fill_n(partial, width, 0.0f);
  with_float_type(t.dtype(), [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    const T* at = t.as<T>() + begin * columns;
    int64_t rows = end - begin;
    for (; rows >= 4; rows -= 4, at += 4 * columns) {
      const T *at1 = at + columns, *at2 = at1 + columns, *at3 = at2 + columns;
      for_lanes(
          d, width, STRETTO_LANES {
            const auto low = hn::Add(load(d, at + i, lanes), load(d, at1 + i, lanes));
            const auto high = hn::Add(load(d, at2 + i, lanes), load(d, at3 + i, lanes));
            const auto sum = load(d, static_cast<const float*>(partial + i), lanes);
            store(d, hn::Add(sum, hn::Add(low, high)), partial + i, lanes);
          });
    }
    for (; rows > 0; --rows, at += columns) {
      for_lanes(
          d, width, STRETTO_LANES {
            const auto sum = load(d, static_cast<const float*>(partial + i), lanes);
            store(d, hn::Add(sum, load(d, at + i, lanes)), partial + i, lanes);
          });
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {
HWY_EXPORT(sum_rows);

void column_sums(Tensor sums, ConstTensor t, Grad mode, GemmContext& context) {
  const int64_t rows = t.rows(), columns = sums.count();
  const int64_t pieces = ceil_div(rows, kBiasRows);
  float* partial = context.shared.floats(pieces * columns + columns);
  float* total = partial + pieces * columns;
  parallel_for(context.threads, pieces, [&](int64_t piece) {
    HWY_DYNAMIC_DISPATCH(sum_rows)
    (partial + piece * columns, static_cast<size_t>(columns), t, piece * kBiasRows,
     std::min(rows, (piece + 1) * kBiasRows));
  });
  std::fill_n(total, columns, 0.0f);
  if (mode == Grad::accumulate) load_floats(total, sums.data(), sums.dtype(), columns);
  for_ranges(context.threads, columns, 256, [&](int64_t begin, int64_t end) {
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const float* from = partial + piece * columns;
      for (int64_t j = begin; j < end; ++j) total[j] += from[j];
    }
  });
  store_floats(sums.data(), sums.dtype(), total, columns);
}

}  // namespace stretto
#endif  // HWY_ONCE
