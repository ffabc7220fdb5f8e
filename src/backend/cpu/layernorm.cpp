// LayerNorm over the last dim, forward with the residual sum fused, and backward.
//
// A row (some KiB) is read from memory once. Further passes over it find it in the first-level
// cache, so mean and variance can be computed in the accurate way, in two passes. Weight gradients
// are sums over rows: rows are divided into pieces, each piece sums into its own row of scratch
// memory, and those rows are added in piece order.
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/targets.h"
#include "base/ceil_div.h"

#ifndef STRETTO_LAYERNORM_ONCE
#define STRETTO_LAYERNORM_ONCE
namespace stretto {

struct LayerNormForward {
  Tensor sum, out, mean, rstd;
  ConstTensor a, b, weight, bias;
};

struct LayerNormBackward {
  Tensor dinp;
  ConstTensor dout, inp, mean, rstd, weight;
  Grad mode;
};

}  // namespace stretto
#endif

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/layernorm.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

constexpr float kLayerNormEps = 1e-5f;

template <typename T>
HWY_INLINE void normalize_row(T* out, float* mean_out, float* rstd_out, const T* x, const T* weight,
                              const T* bias, float row_sum, size_t n) {
  const F32 d;
  const float mean = row_sum / static_cast<float>(n);
  const auto mean_v = hn::Set(d, mean);
  const float squares = sum_lanes(
      d, n, STRETTO_LANES {
        const auto centred = only(d, hn::Sub(load(d, x + i, lanes), mean_v), lanes);
        return hn::Mul(centred, centred);
      });
  const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(n) + kLayerNormEps);
  const auto rstd_v = hn::Set(d, rstd);
  for_lanes(
      d, n, STRETTO_LANES {
        const auto normal = hn::Mul(hn::Sub(load(d, x + i, lanes), mean_v), rstd_v);
        const auto shift = bias == nullptr ? hn::Zero(d) : load(d, bias + i, lanes);
        store(d, hn::MulAdd(normal, load(d, weight + i, lanes), shift), out + i, lanes);
      });
  *mean_out = mean;
  *rstd_out = rstd;
}

template <typename T>
void layernorm_forward_typed(const LayerNormForward& args, int64_t begin, int64_t end) {
  const F32 d;
  const size_t n = static_cast<size_t>(args.b.last());
  for (int64_t row = begin; row < end; ++row) {
    const size_t at = static_cast<size_t>(row) * n;
    const T* x = args.b.as<T>() + at;
    float row_sum = 0;
    if (args.a.none()) {
      row_sum = sum_lanes(
          d, n, STRETTO_LANES { return load(d, x + i, lanes); });
    } else {
      const T* a = args.a.as<T>() + at;
      T* sum = args.sum.as<T>() + at;
      // Statistics are those of the stored, rounded sum, because the backward pass sees no other.
      row_sum = sum_lanes(
          d, n, STRETTO_LANES {
            store(d, hn::Add(load(d, a + i, lanes), load(d, x + i, lanes)), sum + i, lanes);
            return load(d, static_cast<const T*>(sum) + i, lanes);
          });
      x = sum;
    }
    normalize_row(args.out.as<T>() + at, args.mean.as<float>() + row, args.rstd.as<float>() + row,
                  x, args.weight.as<T>(), args.bias.as<T>(), row_sum, n);
  }
}

void layernorm_forward_rows(const LayerNormForward& args, int64_t begin, int64_t end) {
  with_float_type(args.b.dtype(),
                  [&](auto type) { layernorm_forward_typed<decltype(type)>(args, begin, end); });
}

// With normal = (x - mean) rstd and g = dout weight:
//   dx = rstd (g - mean of g - normal * mean of (g normal)).
// Adds dout * normal and dout of every row to dweight and dbias (f32, this piece's own).
template <typename T, Grad kMode>
void layernorm_backward_typed(const LayerNormBackward& args, float* dweight, float* dbias,
                              int64_t begin, int64_t end) {
  const F32 d;
  const size_t n = static_cast<size_t>(args.inp.last());
  const T* weight = args.weight.as<T>();
  for (int64_t row = begin; row < end; ++row) {
    const size_t at = static_cast<size_t>(row) * n;
    const T* x = args.inp.as<T>() + at;
    const T* dy = args.dout.as<T>() + at;
    T* dx = args.dinp.as<T>() + at;
    const auto mean = hn::Set(d, args.mean.as<float>()[row]);
    const auto rstd = hn::Set(d, args.rstd.as<float>()[row]);
    auto sum_g = hn::Zero(d), sum_gn = hn::Zero(d);
    for_lanes(
        d, n, STRETTO_LANES {
          const auto normal = hn::Mul(hn::Sub(load(d, x + i, lanes), mean), rstd);
          const auto dy_v = load(d, dy + i, lanes);  // zero in padding, so g is too
          const auto g = hn::Mul(dy_v, load(d, weight + i, lanes));
          sum_g = hn::Add(sum_g, g);
          sum_gn = hn::MulAdd(g, normal, sum_gn);
          store(d, hn::MulAdd(dy_v, normal, load(d, dweight + i, lanes)), dweight + i, lanes);
          store(d, hn::Add(dy_v, load(d, dbias + i, lanes)), dbias + i, lanes);
        });
    const float scale = 1.0f / static_cast<float>(n);
    const auto mean_g = hn::Set(d, sum_of(d, sum_g) * scale);
    const auto mean_gn = hn::Set(d, sum_of(d, sum_gn) * scale);
    for_lanes(
        d, n, STRETTO_LANES {
          const auto normal = hn::Mul(hn::Sub(load(d, x + i, lanes), mean), rstd);
          const auto g = hn::Mul(load(d, dy + i, lanes), load(d, weight + i, lanes));
          const auto inner = hn::NegMulAdd(normal, mean_gn, hn::Sub(g, mean_g));
          if constexpr (kMode == Grad::accumulate) {
            const auto before = load(d, static_cast<const T*>(dx) + i, lanes);
            store(d, hn::MulAdd(inner, rstd, before), dx + i, lanes);
          } else {
            store(d, hn::Mul(inner, rstd), dx + i, lanes);
          }
        });
  }
}

void layernorm_backward_rows(const LayerNormBackward& args, float* dweight, float* dbias,
                             int64_t begin, int64_t end) {
  with_float_type(args.inp.dtype(), [&](auto type) {
    using T = decltype(type);
    if (args.mode == Grad::accumulate) {
      layernorm_backward_typed<T, Grad::accumulate>(args, dweight, dbias, begin, end);
    } else {
      layernorm_backward_typed<T, Grad::overwrite>(args, dweight, dbias, begin, end);
    }
  });
}

// dst[begin, end) += sum over pieces of partial[piece * stride + column], in piece order.
void add_partials(Tensor dst, const float* partial, int64_t pieces, int64_t stride, int64_t begin,
                  int64_t end) {
  const F32 d;
  with_float_type(dst.dtype(), [&](auto type) {
    using T = decltype(type);
    T* out = dst.as<T>() + begin;
    const float* first = partial + begin;
    for_lanes(
        d, static_cast<size_t>(end - begin), STRETTO_LANES {
          auto sum = load(d, first + i, lanes);
          for (int64_t piece = 1; piece < pieces; ++piece) {
            sum = hn::Add(sum, load(d, first + piece * stride + i, lanes));
          }
          store(d, hn::Add(sum, load(d, static_cast<const T*>(out) + i, lanes)), out + i, lanes);
        });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(layernorm_forward_rows);
HWY_EXPORT(layernorm_backward_rows);
HWY_EXPORT(add_partials);

void CpuBackend::do_layernorm_forward(Tensor sum, Tensor out, Tensor mean, Tensor rstd,
                                      ConstTensor a, ConstTensor b, ConstTensor weight,
                                      ConstTensor bias) {
  check_float_types(b);
  STRETTO_CHECK(weight.dtype() == b.dtype() && (bias.none() || bias.dtype() == b.dtype()));
  for_ranges(threads_, b.rows(), rows_per_piece(b.last()), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(layernorm_forward_rows)
    ({sum, out, mean, rstd, a, b, weight, bias}, begin, end);
  });
}

void CpuBackend::do_layernorm_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout,
                                       ConstTensor inp, ConstTensor mean, ConstTensor rstd,
                                       ConstTensor weight, Grad mode, Tensor) {
  check_float_types(inp, dweight, dbias);
  STRETTO_CHECK(weight.dtype() == inp.dtype());
  const int64_t rows = inp.rows(), n = inp.last();
  if (rows == 0) return;
  const int64_t piece_rows = std::max(rows_per_piece(n), ceil_div(rows, kMostNormPieces));
  const int64_t pieces = ceil_div(rows, piece_rows);
  float* partial = gemm_.shared.floats(pieces * 2 * n);
  for_ranges(threads_, rows, piece_rows, [&](int64_t begin, int64_t end) {
    float* mine = partial + begin / piece_rows * 2 * n;
    std::fill(mine, mine + 2 * n, 0.0f);
    HWY_DYNAMIC_DISPATCH(layernorm_backward_rows)
    ({dinp, dout, inp, mean, rstd, weight, mode}, mine, mine + n, begin, end);
  });
  for_ranges(threads_, n, 256, [&](int64_t begin, int64_t end) {
    const auto add = HWY_DYNAMIC_DISPATCH(add_partials);
    if (dweight) add(dweight, partial, pieces, 2 * n, begin, end);
    if (dbias) add(dbias, partial + n, pieces, 2 * n, begin, end);
  });
}

}  // namespace stretto
#endif  // HWY_ONCE
