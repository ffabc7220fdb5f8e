// The register kernel: a tile of C from one panel of A and one of B. Included once per Highway
// target. Every element of C is one chain of fused multiply-adds over k in ascending order, for any
// tile height, so results do not depend on how rows and columns were cut.
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

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// Tile height and its width in vectors: as many accumulators as registers allow, leaving room for
// one row of B and the broadcast of A. 32 registers with AVX-512 and NEON, 16 with AVX2.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
constexpr int kTileRows = 14;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kTileVectors = 2;
constexpr int64_t kTileColumns = kTileVectors * static_cast<int64_t>(hn::MaxLanes(F32()));

// How the kernel walks over A: `packed` has the tile's rows next to each other and steps by a_step
// from k to k; `rows` has k along memory and a_step from row to row.
enum class Walk { packed, rows };

// c (R, columns <= kTileColumns) = [c +] a (R, k) b (k, kTileColumns). Row k of b is at
// b + k * b_step; kTileColumns elements of it are read, whatever `columns` says.
template <size_t R, Walk kWalk>
void tile_kernel(int64_t k, const float* HWY_RESTRICT a, int64_t a_step,
                 const float* HWY_RESTRICT b, int64_t b_step, float* HWY_RESTRICT c,
                 int64_t c_stride, int64_t columns, bool add) {
  using V = hn::Vec<F32>;
  const F32 d;
  constexpr size_t kLanes = static_cast<size_t>(kTileColumns / kTileVectors);
  // Three rows per pointer: x86 addresses reach base + stride and base + 2 stride.
  constexpr size_t kBases = kWalk == Walk::rows ? (R + 2) / 3 : 1;
  const auto rows = std::make_index_sequence<R>();
  V low[R], high[R];
  const float* base[kBases];
  // Fold expressions instead of loops: all indices are constants, so the arrays live in registers.
  const auto start = [&]<size_t... r, size_t... i>(
      std::index_sequence<r...>, std::index_sequence<i...>) __attribute__((always_inline)) {
    ((low[r] = hn::Zero(d)), ...);
    ((high[r] = hn::Zero(d)), ...);
    (hwy::Prefetch(c + static_cast<int64_t>(r) * c_stride), ...);
    (hwy::Prefetch(c + static_cast<int64_t>(r) * c_stride + kTileColumns - 1), ...);
    ((base[i] = a + static_cast<int64_t>(3 * i) * a_step), ...);
  };
  start(rows, std::make_index_sequence<kBases>());
  const auto step = [&]<size_t... r, size_t... i>(
      std::index_sequence<r...>, std::index_sequence<i...>) __attribute__((always_inline)) {
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + kLanes);
    (
        [&]() __attribute__((always_inline)) {
          constexpr bool kInRows = kWalk == Walk::rows;
          const float* at =
              kInRows ? base[r / 3] + static_cast<int64_t>(r % 3) * a_step : base[0] + r;
          const V x = hn::Set(d, *at);
          low[r] = hn::MulAdd(x, b0, low[r]);
          high[r] = hn::MulAdd(x, b1, high[r]);
        }(),
        ...);
    ((base[i] += kWalk == Walk::rows ? 1 : a_step), ...);
    b += b_step;
  };
  for (int64_t p = 0; p < k; ++p) step(rows, std::make_index_sequence<kBases>());
  if (columns == kTileColumns) {
    const auto finish = [&]<size_t... r>(std::index_sequence<r...>) __attribute__((always_inline)) {
      (
          [&]() __attribute__((always_inline)) {
            float* at = c + static_cast<int64_t>(r) * c_stride;
            if (add) {
              low[r] = hn::Add(hn::LoadU(d, at), low[r]);
              high[r] = hn::Add(hn::LoadU(d, at + kLanes), high[r]);
            }
            hn::StoreU(low[r], d, at);
            hn::StoreU(high[r], d, at + kLanes);
          }(),
          ...);
    };
    finish(rows);
    return;
  }
  HWY_ALIGN float tile[R * static_cast<size_t>(kTileColumns)];
  const auto spill = [&]<size_t... r>(std::index_sequence<r...>) __attribute__((always_inline)) {
    (hn::StoreU(low[r], d, tile + r * kTileColumns), ...);
    (hn::StoreU(high[r], d, tile + r * kTileColumns + kLanes), ...);
  };
  spill(rows);
  for (size_t r = 0; r < R; ++r) {
    float* at = c + static_cast<int64_t>(r) * c_stride;
    for (int64_t j = 0; j < columns; ++j) {
      const float x = tile[static_cast<int64_t>(r) * kTileColumns + j];
      at[j] = add ? at[j] + x : x;
    }
  }
}

using TileKernel = void (*)(int64_t k, const float* a, int64_t a_step, const float* b,
                            int64_t b_step, float* c, int64_t c_stride, int64_t columns, bool add);

// The kernel for tiles of `rows` <= kTileRows rows.
template <Walk kWalk>
HWY_INLINE TileKernel tile_kernel_for(int64_t rows) {
  static constexpr auto table = []<size_t... r>(std::index_sequence<r...>) {
    return std::array<TileKernel, kTileRows>{tile_kernel<r + 1, kWalk>...};
  }
  (std::make_index_sequence<kTileRows>());
  return table[static_cast<size_t>(rows - 1)];
}

// Rows cut into panels whose heights differ by at most one: no thin last tile.
struct RowPanels {
  int64_t rows, panels;
  explicit RowPanels(int64_t n) : rows(n), panels((n + kTileRows - 1) / kTileRows) {}
  int64_t begin(int64_t panel) const { return panel * rows / panels; }
  int64_t height(int64_t panel) const { return begin(panel + 1) - begin(panel); }
};

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#endif
