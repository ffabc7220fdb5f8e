// Building blocks of the attention kernels: products of small f32 tiles, loads and stores of tiles.
// Included once per Highway target.
#if defined(STRETTO_ATTENTION_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STRETTO_ATTENTION_TILES_INL_H
#undef STRETTO_ATTENTION_TILES_INL_H
#else
#define STRETTO_ATTENTION_TILES_INL_H
#endif

#include "backend/cpu/gemm_kernel-inl.h"
#include "backend/cpu/gemm_pack-inl.h"
#include "backend/cpu/simd_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

constexpr int64_t kKeys = 128;  // keys of one tile
// So that rows of scores do not fall into the same cache set.
constexpr int64_t kScoreStride = kKeys + 16;
// Because kernels read whole vectors past a tile's end.
constexpr int64_t kTileSlack = 2 * kTileColumns;
static_assert(kKeys % kTileColumns == 0);

// Rows of `d` elements, `stride` elements apart, from and to dense f32 rows.
inline void load_tile(float* tile, const void* data, DType type, int64_t first, int64_t stride,
                      int64_t rows, int64_t width) {
  const F32 d;
  with_float_type(type, [&](auto tag) HWY_ATTR {
    const auto* from = static_cast<const decltype(tag)*>(data) + first;
    for (int64_t r = 0; r < rows; ++r, from += stride, tile += width) {
      for_lanes(
          d, static_cast<size_t>(width),
          STRETTO_LANES { store(d, load(d, from + i, lanes), tile + i, lanes); });
    }
  });
}

inline void store_tile(void* data, DType type, int64_t first, int64_t stride, const float* tile,
                       int64_t rows, int64_t width) {
  const F32 d;
  with_float_type(type, [&](auto tag) HWY_ATTR {
    auto* to = static_cast<decltype(tag)*>(data) + first;
    for (int64_t r = 0; r < rows; ++r, to += stride, tile += width) {
      for_lanes(
          d, static_cast<size_t>(width),
          STRETTO_LANES { store(d, load(d, tile + i, lanes), to + i, lanes); });
    }
  });
}

// Packs panels of kTileColumns rows of a dense tile (rows, width), transposed: the right-hand side
// of a product with the tile's transpose. Panel p begins at packed + p * width * kTileColumns.
inline void pack_transposed(float* packed, const float* tile, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; r += kTileColumns) {
    pack_across(packed + r * width, tile + r * width, width, width, kTileColumns,
                HWY_MIN(kTileColumns, rows - r));
  }
}

// scores (rows, keys) = x (rows, d) y^T, where `packed` holds y (keys, d) by pack_transposed. Row r
// sees keys up to r + offset only: tiles beyond the diagonal are skipped and stay undefined.
inline void score_product(float* scores, const float* x, const float* packed, int64_t rows,
                          int64_t keys, int64_t d, int64_t offset) {
  const RowPanels panels(rows);
  for (int64_t j = 0; j < keys; j += kTileColumns) {
    for (int64_t i = 0; i < panels.panels; ++i) {
      const int64_t row = panels.begin(i), height = panels.height(i);
      if (j > row + height - 1 + offset) continue;
      tile_kernel_for<Walk::rows>(height)(d, x + row * d, d, packed + j * d, kTileColumns,
                                          scores + row * kScoreStride + j, kScoreStride,
                                          kTileColumns, false);
    }
  }
}

// out (rows, d) += scores (rows, keys) y (keys, d). Entries beyond the diagonal are zero up to the
// end of their row panel; what lies beyond is not read.
inline void value_product(float* out, const float* scores, const float* y, int64_t rows,
                          int64_t keys, int64_t d, int64_t offset) {
  const RowPanels panels(rows);
  for (int64_t j = 0; j < d; j += kTileColumns) {
    for (int64_t i = 0; i < panels.panels; ++i) {
      const int64_t row = panels.begin(i), height = panels.height(i);
      const int64_t visible = HWY_MIN(keys, row + height + offset);
      if (visible <= 0) continue;
      tile_kernel_for<Walk::rows>(height)(visible, scores + row * kScoreStride, kScoreStride, y + j,
                                          d, out + row * d + j, d, HWY_MIN(kTileColumns, d - j),
                                          true);
    }
  }
}

// out (keys, d) += scores (rows, keys)^T y (rows, d). Key j is seen by rows from j - offset on.
// Entries beyond the diagonal must be zero from the first row of their key panel's range.
inline void key_product(float* out, const float* scores, const float* y, int64_t rows, int64_t keys,
                        int64_t d, int64_t offset) {
  const RowPanels panels(keys);
  for (int64_t j = 0; j < d; j += kTileColumns) {
    for (int64_t i = 0; i < panels.panels; ++i) {
      const int64_t key = panels.begin(i), height = panels.height(i);
      const int64_t first = HWY_MAX(0, key - offset);
      if (first >= rows) continue;
      tile_kernel_for<Walk::packed>(height)(rows - first, scores + first * kScoreStride + key,
                                            kScoreStride, y + first * d + j, d, out + key * d + j,
                                            d, HWY_MIN(kTileColumns, d - j), true);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#endif
