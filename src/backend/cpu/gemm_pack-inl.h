// Packing of matrix operands into panels for the register kernel, converting to f32 on the way.
//
// A panel holds `width` neighbouring rows of A (or columns of B) for all k, k by k: element (i, k)
// lies at panel[k * width + i]. Vectors may run past the end of a panel: give each kPanelSlack
// floats more. Included once per Highway target.
#if defined(STRETTO_GEMM_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_GEMM_PACK_INL_H
#undef STRETTO_GEMM_PACK_INL_H
#else
#define STRETTO_GEMM_PACK_INL_H
#endif

#include "backend/cpu/simd_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

constexpr int64_t kPanelSlack = 16;

// The operand's index i runs along memory: row k of the panel is `count` <= width neighbours at
// src + k * stride, padded with zeros. `readable` elements may be read from src in every row.
template <typename T>
void pack_along(float* panel, const T* src, int64_t stride, int64_t k, int64_t width, int64_t count,
                int64_t readable) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t p = 0; p < k; ++p) {
    const T* from = src + p * stride;
    float* to = panel + p * width;
    int64_t i = 0;
    if (count == width) {
      for (; i < width && i + lanes <= readable; i += lanes) store(d, load(d, from + i), to + i);
    }
    for (; i < width; i += lanes) {
      const int64_t valid = HWY_MAX(HWY_MIN(count - i, lanes), 0);
      store(d, load(d, from + i, Part{static_cast<size_t>(valid)}), to + i);
    }
  }
}

// Four rows of four k each, turned.
template <typename T>
HWY_INLINE void transpose_4x4(float* to, int64_t width, const T* r0, const T* r1, const T* r2,
                              const T* r3) {
#if HWY_TARGET == HWY_SCALAR
  const T* rows[4] = {r0, r1, r2, r3};
  for (int64_t i = 0; i < 16; ++i) to[i / 4 * width + i % 4] = to_float(rows[i % 4][i / 4]);
#else
  const hn::FixedTag<float, 4> d;
  const auto a = load(d, r0), b = load(d, r1), c = load(d, r2), e = load(d, r3);
  const auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
  const auto ac2 = hn::InterleaveUpper(d, a, c), be2 = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, ac, be), d, to);
  hn::StoreU(hn::InterleaveUpper(d, ac, be), d, to + width);
  hn::StoreU(hn::InterleaveLower(d, ac2, be2), d, to + 2 * width);
  hn::StoreU(hn::InterleaveUpper(d, ac2, be2), d, to + 3 * width);
#endif
}

// The operand's index k runs along memory: row i of the operand is at src + i * stride.
template <typename T>
void pack_across(float* panel, const T* src, int64_t stride, int64_t k, int64_t width,
                 int64_t count) {
  int64_t p = 0;
  for (; p + 4 <= k; p += 4) {
    float* to = panel + p * width;
    const T* from = src + p;
    // The last group of four overlaps the one before when the height is no multiple of four.
    for (int64_t i = 0; i < count && count >= 4; i += 4) {
      const int64_t at = HWY_MIN(i, count - 4);
      const T* row = from + at * stride;
      transpose_4x4(to + at, width, row, row + stride, row + 2 * stride, row + 3 * stride);
    }
    for (int64_t i = count >= 4 ? count : 0; i < width; ++i) {
      for (int64_t q = 0; q < 4; ++q) {
        to[q * width + i] = i < count ? to_float(from[i * stride + q]) : 0.0f;
      }
    }
  }
  for (; p < k; ++p) {
    for (int64_t i = 0; i < width; ++i) {
      panel[p * width + i] = i < count ? to_float(src[i * stride + p]) : 0.0f;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#endif
