// Logits as what their gradient needs: exponentials, from the product's own epilogue (Hopper,
// bf16).
//
// With t a row's target and s the sum of exp(x - x_t) over all other words, its loss is log(1 + s)
// and the gradient of its logits exp(x - x_t) / (1 + s), for t itself - s / (1 + s). So the product
// writes exp(x - x_t), in 16 bits, and sums of it; - s stands in for the target afterwards; and the
// factor 1 / (1 + s) is left to the two products that take the gradient: rows of one's operand and
// of the other's result. No pass goes over the logits.
#pragma once

#include <cuda_runtime.h>

#include "backend/backend.h"

namespace stretto::cuda {

struct LossShape {
  int64_t rows, n, k;  // tokens; words, padding among them; what both are made of
};

bool loss_product_supports(const cudaDeviceProp& gpu, DType type, const LossShape& shape);
// Rows of `parts`: so many partial sums of each token.
int64_t loss_product_tiles(const LossShape& shape);

struct LossRows {
  const int32_t* targets;  // negative: the row does not count
  int words;               // the columns from here on are padding
  const float* scale;      // of the gradient
  float* target;           // logit of each row's target (of word 0 where it has none)
  float* lse;

  __host__ __device__ bool has(int word) const { return word >= 0 && word < words; }
};

// target.
void loss_targets(const LossRows& rows, const void* inp, const void* weight, const LossShape& shape,
                  cudaStream_t stream);
// logits = exp(x - target), 0 for padding, with x = inp (rows, k) weight (n, k)^T; their sums in
// `parts` (tiles, rows). A word more than 76 nats above the target counts as if it were 76.
void loss_product(void* logits, float* parts, const LossRows& rows, const void* inp,
                  const void* weight, const LossShape& shape, cudaStream_t stream);
// lse, the target's place in `logits`, and scaled = inp with each row times its factor.
void loss_rows(void* scaled, void* logits, const float* parts, const LossRows& rows,
               const void* inp, const LossShape& shape, cudaStream_t stream);
// x (rows, k), each row times its factor.
void loss_scale_rows(void* x, const LossRows& rows, const LossShape& shape, cudaStream_t stream);

}  // namespace stretto::cuda
