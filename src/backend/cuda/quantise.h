// Rounding to the 8-bit float types with one scale per tensor, taken from the tensor itself
// ("current scaling"): its largest magnitude becomes the largest number of the type.
#pragma once

#include <cuda_runtime.h>

#include "backend/backend.h"

namespace stretto::cuda {

void require_eight_bit_products(const cudaDeviceProp& gpu);  // throws: it has none

// x: (rows, columns) bf16, both multiples of 16. `normal` and `transposed` receive x in `type`
// (either may be null); amax receives max |x|; inverse receives the factor that undoes the scaling.
// All three are device memory.
void quantise(void* normal, void* transposed, float* amax, float* inverse, ConstTensor x,
              DType type, cudaStream_t stream);

}  // namespace stretto::cuda
