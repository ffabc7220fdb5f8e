// Element conversions and the fused end of a matrix product: bias, GELU, its derivative.
#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/targets.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/epilogue.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
#include "backend/cpu/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

void to_floats(float* dst, const void* src, DType type, int64_t count) {
  const F32 d;
  with_float_type(type, [&](auto tag) HWY_ATTR {
    const auto* from = static_cast<const decltype(tag)*>(src);
    for_lanes(
        d, static_cast<size_t>(count),
        STRETTO_LANES { store(d, load(d, from + i, lanes), dst + i, lanes); });
  });
}

void from_floats(void* dst, DType type, const float* src, int64_t count) {
  const F32 d;
  with_float_type(type, [&](auto tag) HWY_ATTR {
    auto* to = static_cast<decltype(tag)*>(dst);
    for_lanes(
        d, static_cast<size_t>(count),
        STRETTO_LANES { store(d, load(d, src + i, lanes), to + i, lanes); });
  });
}

// One row of C. The bias has already been turned into f32.
template <typename T>
void finish_row(const GemmArgs& args, const float* x, const float* bias, int64_t at,
                int64_t count) {
  const F32 d;
  const Epilogue& e = args.epilogue;
  T* c = static_cast<T*>(args.c.data) + at;
  T* pre = e.pre == nullptr ? nullptr : static_cast<T*>(e.pre) + at;
  const T* grad_pre = e.grad_pre == nullptr ? nullptr : static_cast<const T*>(e.grad_pre) + at;
  const Gelu gelu = grad_pre == nullptr ? e.gelu : Gelu::none;
  const bool accumulate = args.accumulate;
  for_lanes(
      d, static_cast<size_t>(count), STRETTO_LANES {
        auto v = load(d, x + i, lanes);
        if (bias != nullptr) v = hn::Add(v, load(d, bias + i, lanes));
        if (pre != nullptr) {
          store(d, v, pre + i, lanes);
          // gelu must see the rounded value, as the backward pass and a recomputation will.
          v = load(d, static_cast<const T*>(pre + i), lanes);
        }
        if (gelu != Gelu::none) v = gelu_vec(d, v, gelu);
        if (grad_pre != nullptr) {
          v = hn::Mul(v, gelu_grad_vec(d, load(d, grad_pre + i, lanes), e.gelu));
        }
        if (accumulate) v = hn::Add(v, load(d, static_cast<const T*>(c + i), lanes));
        store(d, v, c + i, lanes);
      });
}

void finish_rows(const GemmArgs& args, const float* x, int64_t x_stride, int64_t row0,
                 int64_t column0, int64_t rows, int64_t columns) {
  const Epilogue& e = args.epilogue;
  constexpr int64_t kChunk = 1024;  // columns whose f32 bias fits on the stack
  HWY_ALIGN float bias[kChunk];
  for (int64_t j = 0; j < columns; j += kChunk) {
    const int64_t count = columns - j < kChunk ? columns - j : kChunk;
    if (e.bias != nullptr) {
      to_floats(bias, element(e.bias, e.bias_type, 0, 0, column0 + j), e.bias_type, count);
    }
    with_float_type(args.c.type, [&](auto tag) HWY_ATTR {
      for (int64_t r = 0; r < rows; ++r) {
        finish_row<decltype(tag)>(args, x + r * x_stride + j, e.bias == nullptr ? nullptr : bias,
                                  (row0 + r) * args.c.stride + column0 + j, count);
      }
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(to_floats);
HWY_EXPORT(from_floats);
HWY_EXPORT(finish_rows);

void load_floats(float* dst, const void* src, DType type, int64_t count) {
  HWY_DYNAMIC_DISPATCH(to_floats)(dst, src, type, count);
}
void store_floats(void* dst, DType type, const float* src, int64_t count) {
  HWY_DYNAMIC_DISPATCH(from_floats)(dst, type, src, count);
}
void finish_block(const GemmArgs& args, const float* x, int64_t x_stride, int64_t row0,
                  int64_t column0, int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(finish_rows)(args, x, x_stride, row0, column0, rows, columns);
}

}  // namespace stretto
#endif  // HWY_ONCE
