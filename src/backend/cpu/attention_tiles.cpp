#include "backend/cpu/attention_tiles.h"

#include <cblas.h>

#include "backend/cpu/gemm.h"

namespace stretto {
namespace {

void tile(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, float* c, int64_t c_stride, const float* a,
          int64_t a_stride, const float* b, int64_t b_stride, int64_t m, int64_t n, int64_t k,
          bool accumulate) {
  const auto narrow = [](int64_t x) { return static_cast<blasint>(x); };
  cblas_sgemm(CblasRowMajor, ta, tb, narrow(m), narrow(n), narrow(k), 1.0f, a, narrow(a_stride), b,
              narrow(b_stride), accumulate ? 1.0f : 0.0f, c, narrow(c_stride));
}

}  // namespace

void tile_nt(float* c, int64_t c_stride, const float* a, int64_t a_stride, const float* b,
             int64_t b_stride, int64_t m, int64_t n, int64_t k, bool accumulate) {
  tile(CblasNoTrans, CblasTrans, c, c_stride, a, a_stride, b, b_stride, m, n, k, accumulate);
}
void tile_nn(float* c, int64_t c_stride, const float* a, int64_t a_stride, const float* b,
             int64_t b_stride, int64_t m, int64_t n, int64_t k, bool accumulate) {
  tile(CblasNoTrans, CblasNoTrans, c, c_stride, a, a_stride, b, b_stride, m, n, k, accumulate);
}
void tile_tn(float* c, int64_t c_stride, const float* a, int64_t a_stride, const float* b,
             int64_t b_stride, int64_t m, int64_t n, int64_t k, bool accumulate) {
  tile(CblasTrans, CblasNoTrans, c, c_stride, a, a_stride, b, b_stride, m, n, k, accumulate);
}

void load_tile(float* tile, const void* data, DType type, int64_t first, int64_t stride,
               int64_t rows, int64_t d) {
  const char* base = static_cast<const char*>(data);
  for (int64_t r = 0; r < rows; ++r) {
    load_floats(tile + r * d, base + static_cast<size_t>(first + r * stride) * dtype_size(type),
                type, d);
  }
}

void store_tile(void* data, DType type, int64_t first, int64_t stride, const float* tile,
                int64_t rows, int64_t d) {
  char* base = static_cast<char*>(data);
  for (int64_t r = 0; r < rows; ++r) {
    store_floats(base + static_cast<size_t>(first + r * stride) * dtype_size(type), type,
                 tile + r * d, d);
  }
}

}  // namespace stretto
