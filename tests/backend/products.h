// Matrix products for the tests of the linear layer and of what it is made of.
#pragma once

#include <cmath>

#include "backend/cpu/gemm.h"
#include "support/ops.h"

namespace stretto::test {

struct ProductCase {
  int64_t m, n, k;
  DType type = DType::f32;
};

// Odd, prime and size 1; around the borders of register tiles and cache blocks.
inline const ProductCase kProducts[] = {{1, 1, 1},
                                        {1, 5, 3},
                                        {7, 1, 2},
                                        {3, 4, 1},
                                        {13, 17, 19},
                                        {31, 33, 47},
                                        {64, 96, 80},
                                        {29, 65, 129},
                                        {257, 97, 31},
                                        {15, 780, 33},
                                        {100, 49, 700},
                                        {226, 100, 400},
                                        {13, 17, 19, DType::bf16},
                                        {61, 67, 389, DType::bf16},
                                        {1, 33, 64, DType::bf16},
                                        {13, 17, 19, DType::f16},
                                        {61, 67, 389, DType::f16}};

inline std::string name_of(const ProductCase& c) {
  return fmt::format("m {} n {} k {} {}", c.m, c.n, c.k, dtype_name(c.type));
}

inline double root(int64_t x) { return std::sqrt(static_cast<double>(x)); }

// Rounding of a sum of k products grows like its square root; plus the rounding of the result.
inline double coefficient(int64_t k) { return 4 + 2 * root(k); }
// Narrow types: f32 sums, one or two roundings of the result.
inline double coefficient(const ProductCase& c, int64_t k) {
  return c.type == DType::f32 ? coefficient(k) : 2;
}

inline ConstMatrix matrix(const Operand& x, bool transposed = false) {
  return {x.tensor().data(), x.dtype(), x.shape().last(), transposed};
}
inline Matrix output_matrix(const Operand& x) {
  return {x.tensor().data(), x.dtype(), x.shape().last()};
}

inline Values plus(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

}  // namespace stretto::test
