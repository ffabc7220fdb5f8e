// Packing of matrix operands into panels for the register kernel, converting to f32 on the way.
//
// A panel holds `width` neighbouring rows of A (or columns of B) for all k, k by k: element (i, k)
// lies at panel[k * width + i]. Included once per Highway target.
#if defined(STRETTO_GEMM_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_GEMM_PACK_INL_H
#undef STRETTO_GEMM_PACK_INL_H
#else
#define STRETTO_GEMM_PACK_INL_H
#endif

#include <algorithm>

#include "backend/cpu/simd_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// For an operand whose index i is contiguous in memory: row k of the panel is `count` <= width
// neighbours at src + k * stride, padded with zeros. `readable` elements may be read from src in
// every row.
template <typename T>
void pack_along(float* panel, const T* src, int64_t stride, int64_t k, int64_t width, int64_t count,
                int64_t readable) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t p = 0; p < k; ++p) {
    const T* from = src + p * stride;
    float* to = panel + p * width;
    int64_t i = 0;
    // Vectors may reach into the rows that follow, but not beyond the last row.
    const int64_t end = HWY_MIN(width, (k - p) * width - lanes + 1);
    if (count == width) {
      for (; i < end && i + lanes <= readable; i += lanes) store(d, load(d, from + i), to + i);
    }
    for (; i < width; i += lanes) {
      const int64_t valid = HWY_MAX(HWY_MIN(count - i, lanes), 0);
      const int64_t room = HWY_MIN(width - i, lanes);
      store(d, load(d, from + i, Part{static_cast<size_t>(valid)}), to + i,
            Part{static_cast<size_t>(room)});
    }
  }
}

// Transposes rows of four k each; this many rows are moved at once.
#if HWY_TARGET == HWY_SCALAR || HWY_MAX_BYTES < 32
constexpr int64_t kTurnedRows = 4;
#else
constexpr int64_t kTurnedRows = 8;
#endif
template <typename T>
HWY_INLINE void turn(float* to, int64_t width, const T* from, int64_t stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < 16; ++i)
    to[i / 4 * width + i % 4] = to_float(from[i % 4 * stride + i / 4]);
#else
  const hn::FixedTag<float, 4> four;
  const hn::FixedTag<float, kTurnedRows> d;
  const auto rows = [&](int64_t i) HWY_ATTR {
    const auto low = load(four, from + i * stride);
    if constexpr (kTurnedRows == 4) {
      return low;
    } else {
      return hn::Combine(d, load(four, from + (i + 4) * stride), low);
    }
  };
  const auto a = rows(0), b = rows(1), c = rows(2), e = rows(3);
  const auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
  const auto ac2 = hn::InterleaveUpper(d, a, c), be2 = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, ac, be), d, to);
  hn::StoreU(hn::InterleaveUpper(d, ac, be), d, to + width);
  hn::StoreU(hn::InterleaveLower(d, ac2, be2), d, to + 2 * width);
  hn::StoreU(hn::InterleaveUpper(d, ac2, be2), d, to + 3 * width);
#endif
}

// For an operand whose k is contiguous in memory: row i of the operand is at src + i * stride.
template <typename T>
void pack_across(float* panel, const T* src, int64_t stride, int64_t k, int64_t width,
                 int64_t count) {
  // A cache line of k of a few rows at a time: so each line is read once, even if rows are a power
  // of two apart and compete for the same place in the cache.
  constexpr int64_t kLine = 16;
  const int64_t turned = count >= kTurnedRows ? k / 4 * 4 : 0;
  for (int64_t p0 = 0; p0 < turned; p0 += kLine) {
    const int64_t p1 = HWY_MIN(p0 + kLine, turned);
    // If the height is no multiple of a group, the last group overlaps the one before.
    for (int64_t i = 0; i < count; i += kTurnedRows) {
      const int64_t at = HWY_MIN(i, count - kTurnedRows);
      for (int64_t p = p0; p < p1; p += 4) {
        turn(panel + p * width + at, width, src + at * stride + p, stride);
      }
    }
  }
  for (int64_t p = 0; p < turned && count < width; ++p) {
    std::fill(panel + p * width + count, panel + (p + 1) * width, 0.0f);
  }
  for (int64_t p = turned; p < k; ++p) {
    for (int64_t i = 0; i < width; ++i) {
      panel[p * width + i] = i < count ? to_float(src[i * stride + p]) : 0.0f;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#endif
