// Internals of matrix products: a pair of functions per implementation, and what these share.
#pragma once

#include "backend/cpu/gemm.h"
#include "base/ceil_div.h"

namespace stretto {

bool supports_openblas(const GemmArgs& args);
void gemm_openblas(const GemmArgs& args, GemmContext& context);

bool supports_onednn(const GemmArgs& args);
void gemm_onednn(const GemmArgs& args, GemmContext& context);
// Whether this CPU multiplies `type` in hardware through oneDNN (AMX, AVX-512-BF16).
bool onednn_is_native(DType type);

bool supports_amx(const GemmArgs& args);
void gemm_amx(const GemmArgs& args, GemmContext& context);
// Otherwise gemm_amx emulates the tiles, with correct results, for tests only.
bool amx_is_native();

constexpr int64_t kDotRows = 8;  // the most rows that gemm_dot takes
bool supports_dot(const GemmArgs& args);
void gemm_dot(const GemmArgs& args, GemmContext& context);

bool supports_own(const GemmArgs& args);
void gemm_own(const GemmArgs& args, GemmContext& context);

GemmScratch amx_scratch(int64_t m, int64_t n, int64_t k);
// `narrow`: C is not f32, or it has an epilogue and accumulates.
GemmScratch own_scratch(int64_t m, int64_t n, int64_t k, bool narrow, int threads);

// The block of C that OpenBLAS or oneDNN computes in one call. It depends on the shape alone: a
// product with few blocks is divided into smaller ones, so that threads have enough to share.
struct LibraryBlocks {
  static constexpr int64_t kRows = 256, kColumns = 768;  // the largest
  int64_t m, n, rows = kRows, columns = kColumns;

  LibraryBlocks(int64_t m_, int64_t n_) : m(m_), n(n_) {
    constexpr int64_t kEnough = 8, kLeastColumns = 192, kLeastRows = 64;
    while (count() < kEnough && columns > kLeastColumns) columns /= 2;
    while (count() < kEnough && rows > kLeastRows) rows /= 2;
  }
  int64_t across() const { return ceil_div(n, columns); }
  int64_t count() const { return across() * ceil_div(m, rows); }
  int64_t row(int64_t block) const { return block / across() * rows; }
  int64_t column(int64_t block) const { return block % across() * columns; }
};

// Applies the epilogue of `args` to the finished f32 block `x` (rows, columns; row stride
// `x_stride`) of A B at (row0, column0) and writes it to C. `x` may be C's own memory when C is f32
// and nothing accumulates.
void finish_block(const GemmArgs& args, const float* x, int64_t x_stride, int64_t row0,
                  int64_t column0, int64_t rows, int64_t columns);

// Address of element (row, column) of a stored matrix.
inline const char* element(const void* data, DType type, int64_t stride, int64_t row,
                           int64_t column) {
  return static_cast<const char*>(data) +
         static_cast<size_t>(row * stride + column) * dtype_size(type);
}
inline char* element(void* data, DType type, int64_t stride, int64_t row, int64_t column) {
  return static_cast<char*>(data) + static_cast<size_t>(row * stride + column) * dtype_size(type);
}

}  // namespace stretto
