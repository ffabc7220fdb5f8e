// How the element-wise and row-wise operators divide their work: by the shape alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ceil_div.h"
#include "base/parallel_for.h"
#include "tensor/tensor.h"

namespace stretto {

constexpr int64_t kPieceElements = 16384;  // 64 KiB of f32: enough work to be worth handing out

// The largest number of partial sums; adding these up must be little work compared with computing
// them.
constexpr int64_t kMostStatPieces = 4096;
constexpr int64_t kMostNormPieces = 64;
constexpr int64_t kBiasRows = 64;  // rows of one partial sum of a bias gradient

// Calls body(begin, end) over [0, count) in ranges of `size` (the last one shorter).
template <typename Body>
void for_ranges(int threads, int64_t count, int64_t size, const Body& body) {
  parallel_for(threads, ceil_div(count, size),
               [&](int64_t piece) { body(piece * size, std::min(count, (piece + 1) * size)); });
}

// The number of rows whose elements make about one piece.
inline int64_t rows_per_piece(int64_t row_elements) {
  return std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, row_elements));
}

// Types are checked before work is handed out, because no exception may leave a worker thread.
template <typename... T>
void check_float_types(const T&... tensors) {
  const auto check = [](ConstTensor t) {
    STRETTO_CHECK(
        t.none() || t.dtype() == DType::f32 || t.dtype() == DType::bf16 || t.dtype() == DType::f16,
        "f32, bf16 or f16 expected, got {}", dtype_name(t.dtype()));
  };
  (check(tensors), ...);
}

}  // namespace stretto
