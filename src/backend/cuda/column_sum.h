// Column sums of tall matrices (bias gradients, LayerNorm weight gradients) in two stages: stripes
// of rows into partial sums, then the partial sums in stripe order. Two runs agree bit for bit.
#pragma once

#include <cuda_runtime.h>

#include <initializer_list>

#include "backend/backend.h"

namespace stretto::cuda {

// What was kept of GELU, where a gradient goes through it.
struct BeforeGelu {
  ConstTensor pre;
  Gelu form = Gelu::none;
  Tensor act;  // receives gelu(pre); may be none, or pre itself
  GeluKeeps keeps = GeluKeeps::value;
};

// Stripes that column_sum_partials() cuts a (rows, n) matrix into: depends on the shape alone.
int column_sum_stripes(int64_t rows, int64_t n);
// partial (stripes, n) f32 = column sums of each stripe of x. With `before`: x is first
// multiplied by gelu'(pre), or by pre itself where that is the derivative, in place, and `act`
// becomes gelu(pre).
void column_sum_partials(float* partial, Tensor x, const BeforeGelu& before, cudaStream_t stream);
// The same for the first n columns of x alone, which has rows; column_sum_stripes(rows, n) stripes.
void leading_column_sum_partials(float* partial, ConstTensor x, int64_t n, cudaStream_t stream);
// out (n), f32 or the compute type, = or += the sum of the parts.
void sum_parts(Tensor out, const float* partial, int parts, Grad mode, cudaStream_t stream);
// The same for several results of one size and type in one launch; `out` may be none.
struct PartialSums {
  Tensor out;
  const float* partial;
};
void sum_parts(std::initializer_list<PartialSums> sums, int parts, Grad mode, cudaStream_t stream);
// out = gelu(pre), and pre becomes its derivative.
void gelu_with_derivative(Tensor out, Tensor pre, Gelu form, cudaStream_t stream);
// x += bias along rows; then gelu when asked (x in place).
void bias_gelu(Tensor x, ConstTensor bias, Gelu form, cudaStream_t stream);
// x *= gelu'(pre), in place; act as above.
void gelu_backward(Tensor x, const BeforeGelu& before, cudaStream_t stream);

}  // namespace stretto::cuda
