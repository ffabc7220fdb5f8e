// Products of small row-major f32 tiles, single-threaded, for the attention kernels.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace stretto {

// c (m, n) = [c +] a (m, k) b (n, k)^T.
void tile_nt(float* c, int64_t c_stride, const float* a, int64_t a_stride, const float* b,
             int64_t b_stride, int64_t m, int64_t n, int64_t k, bool accumulate);
// c (m, n) = [c +] a (m, k) b (k, n).
void tile_nn(float* c, int64_t c_stride, const float* a, int64_t a_stride, const float* b,
             int64_t b_stride, int64_t m, int64_t n, int64_t k, bool accumulate);
// c (m, n) = [c +] a (k, m)^T b (k, n).
void tile_tn(float* c, int64_t c_stride, const float* a, int64_t a_stride, const float* b,
             int64_t b_stride, int64_t m, int64_t n, int64_t k, bool accumulate);

// Rows of `d` elements of any float type, `stride` elements apart, from and to dense f32 rows.
void load_tile(float* tile, const void* data, DType type, int64_t first, int64_t stride,
               int64_t rows, int64_t d);
void store_tile(void* data, DType type, int64_t first, int64_t stride, const float* tile,
                int64_t rows, int64_t d);

}  // namespace stretto
