// The register kernel: computes a tile of C from one panel of A and one of B. Included once per
// Highway target. Every element of C is one chain of fused multiply-adds in ascending order of k,
// for any height of the tile, so results do not depend on how rows and columns were divided.
#if defined(STRETTO_GEMM_KERNEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_GEMM_KERNEL_INL_H
#undef STRETTO_GEMM_KERNEL_INL_H
#else
#define STRETTO_GEMM_KERNEL_INL_H
#endif

#include <hwy/cache_control.h>

#include <array>
#include <utility>

#include "backend/cpu/simd_io-inl.h"
#include "base/ceil_div.h"

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// Height of a tile, and its width in vectors: as many accumulators as registers allow, with room
// for one row of B and the broadcast of A. There are 32 registers with AVX-512 and NEON, 16 with
// AVX2. Attention uses tiles whose width divides a head; matrix products the tile that loads least.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
struct Tile {
  static constexpr size_t kRows = 14, kVectors = 2;
};
struct WideTile {
  static constexpr size_t kRows = 9, kVectors = 3;
};
#elif HWY_TARGET == HWY_NEON
struct Tile {
  static constexpr size_t kRows = 14, kVectors = 2;
};
using WideTile = Tile;
#else
struct Tile {
  static constexpr size_t kRows = 6, kVectors = 2;
};
using WideTile = Tile;
#endif
template <typename Shape>
constexpr int64_t columns_of = static_cast<int64_t>(Shape::kVectors* hn::MaxLanes(F32()));
constexpr int64_t kTileRows = Tile::kRows;
constexpr int64_t kTileColumns = columns_of<Tile>;

// How the kernel goes over A. `packed`: the tile's rows are next to each other, and a_step leads
// from k to k. `rows`: k is contiguous, and a_step leads from row to row. `streamed`: packed, with
// operands in the second-level cache and C in memory; all are prefetched.
enum class Walk { packed, rows, streamed };

// c (R, columns <= kColumns) = [c +] a (R, k) b (k, kColumns), where kColumns is the width of
// Shape. Row k of b is at b + k * b_step; all kColumns elements of it are read, whatever `columns`
// is.
template <typename Shape, size_t R, Walk kWalk>
void tile_kernel(int64_t k, const float* HWY_RESTRICT a, int64_t a_step,
                 const float* HWY_RESTRICT b, int64_t b_step, float* HWY_RESTRICT c,
                 int64_t c_stride, int64_t columns, bool add) {
  using V = hn::Vec<F32>;
  const F32 d;
  constexpr size_t kVectors = Shape::kVectors, kLanes = hn::MaxLanes(F32());
  constexpr int64_t kColumns = columns_of<Shape>;
  constexpr size_t kLine = 16;  // floats of a cache line
  // One pointer per three rows, because x86 can address base, base + stride and base + 2 stride.
  constexpr size_t kBases = kWalk == Walk::rows ? (R + 2) / 3 : 1;
  // Fold expressions instead of loops: all indices are constants, so the arrays stay in registers.
  const auto all = std::make_index_sequence<R * kVectors>();
  const auto rows = std::make_index_sequence<R>();
  const auto vectors = std::make_index_sequence<kVectors>();
  const auto bases = std::make_index_sequence<kBases>();
  V sums[R * kVectors];
  const float* base[kBases];
  const auto start = [&]<size_t... n, size_t... i>(
      std::index_sequence<n...>, std::index_sequence<i...>) __attribute__((always_inline)) {
    ((sums[n] = hn::Zero(d)), ...);
    ((base[i] = a + static_cast<int64_t>(3 * i) * a_step), ...);
  };
  start(all, bases);
  const auto fetch_row = [&]<size_t... v>(const float* row, std::index_sequence<v...>)
      __attribute__((always_inline)) {
    (hwy::Prefetch(row + v * kLanes), ...);
    hwy::Prefetch(row + kColumns - 1);  // a row of C may begin anywhere in a line
  };
  const auto step = [&]<size_t... r, size_t... v, size_t... i>(
      std::index_sequence<r...>, std::index_sequence<v...>, std::index_sequence<i...>)
      __attribute__((always_inline)) {
    const V of_b[] = {hn::LoadU(d, b + v * kLanes)...};
    const auto row = [&]<size_t q>(std::integral_constant<size_t, q>)
        __attribute__((always_inline)) {
      const V x = hn::Set(
          d, kWalk == Walk::rows ? base[q / 3][static_cast<int64_t>(q % 3) * a_step] : base[0][q]);
      ((sums[q * kVectors + v] = hn::MulAdd(x, of_b[v], sums[q * kVectors + v])), ...);
    };
    (row(std::integral_constant<size_t, r>()), ...);
    if constexpr (kWalk == Walk::streamed) {
      hwy::Prefetch(base[0] + 24 * R);
      const auto fetch = [&]<size_t q>(std::integral_constant<size_t, q>)
          __attribute__((always_inline)) {
        if constexpr (q * kLanes % kLine == 0) hwy::Prefetch(b + (16 * kVectors + q) * kLanes);
      };
      (fetch(std::integral_constant<size_t, v>()), ...);
    }
    ((base[i] += kWalk == Walk::rows ? 1 : a_step), ...);
    b += b_step;
  };
  if constexpr (kWalk == Walk::streamed) {
    // One row of C at a time: all at once would occupy every fill buffer, for which loads wait.
    const int64_t part = k / static_cast<int64_t>(R + 1);
    const float* row = c;
    for (size_t r = 0; r < R; ++r, row += c_stride) {
      fetch_row(row, vectors);
      for (int64_t p = 0; p < part; ++p) step(rows, vectors, bases);
    }
    k -= part * static_cast<int64_t>(R);
  } else {
    const auto fetch = [&]<size_t... r>(std::index_sequence<r...>) __attribute__((always_inline)) {
      (fetch_row(c + static_cast<int64_t>(r) * c_stride, vectors), ...);
    };
    fetch(rows);
  }
  for (int64_t p = 0; p < k; ++p) step(rows, vectors, bases);
  if (columns == kColumns) {
    const auto finish = [&]<size_t... n>(std::index_sequence<n...>) __attribute__((always_inline)) {
      (
          [&]() __attribute__((always_inline)) {
            float* at = c + static_cast<int64_t>(n / kVectors) * c_stride + n % kVectors * kLanes;
            if (add) sums[n] = hn::Add(hn::LoadU(d, at), sums[n]);
            hn::StoreU(sums[n], d, at);
          }(),
          ...);
    };
    finish(all);
    return;
  }
  HWY_ALIGN float tile[R * static_cast<size_t>(kColumns)];
  const auto spill = [&]<size_t... n>(std::index_sequence<n...>) __attribute__((always_inline)) {
    (hn::StoreU(sums[n], d, tile + n * kLanes), ...);
  };
  spill(all);
  for (size_t r = 0; r < R; ++r) {
    float* at = c + static_cast<int64_t>(r) * c_stride;
    for (int64_t j = 0; j < columns; ++j) {
      const float x = tile[static_cast<int64_t>(r) * kColumns + j];
      at[j] = add ? at[j] + x : x;
    }
  }
}

using TileKernel = void (*)(int64_t k, const float* a, int64_t a_step, const float* b,
                            int64_t b_step, float* c, int64_t c_stride, int64_t columns, bool add);

// The kernel for tiles of `rows` <= Shape::kRows rows.
template <Walk kWalk, typename Shape = Tile>
HWY_INLINE TileKernel tile_kernel_for(int64_t rows) {
  static constexpr auto table = []<size_t... r>(std::index_sequence<r...>) {
    return std::array<TileKernel, Shape::kRows>{tile_kernel<Shape, r + 1, kWalk>...};
  }
  (std::make_index_sequence<Shape::kRows>());
  return table[static_cast<size_t>(rows - 1)];
}

// Divides rows into panels of at most `most` rows whose heights differ by at most one, so that the
// last one is not thin.
struct RowPanels {
  int64_t rows, panels;
  explicit RowPanels(int64_t n, int64_t most = kTileRows) : rows(n), panels(ceil_div(n, most)) {}
  int64_t begin(int64_t panel) const { return panel * rows / panels; }
  int64_t height(int64_t panel) const { return begin(panel + 1) - begin(panel); }
};

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#endif
