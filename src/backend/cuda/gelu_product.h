// The gradient before GELU in one kernel (Hopper, bf16): the product that takes the gradient after
// it, times GELU's derivative, and the column sums of that, the gradient of a bias.
#pragma once

#include <cuda_runtime.h>

#include "backend/backend.h"

namespace stretto::cuda {

struct GeluShape {
  int64_t rows, n, k;  // tokens; columns of the result; what both operands are made of
};

bool gelu_product_supports(const cudaDeviceProp& gpu, DType type, const GeluShape& shape);
// Rows of `parts`: so many partial sums of each column.
int gelu_product_parts(const GeluShape& shape);
// dpre (rows, n) = dout (rows, k) weight (k, n) times the derivative of GELU (tanh form) at pre
// (rows, n); parts, unless null: sums of its columns.
void gelu_product(void* dpre, float* parts, const void* dout, const void* weight, const void* pre,
                  const GeluShape& shape, cudaStream_t stream);

}  // namespace stretto::cuda
