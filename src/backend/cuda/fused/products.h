// The products by kind, one file each: CUTLASS takes half a minute to compile for each of them.
#pragma once

#include "backend/cuda/fused/fused_product.h"

namespace stretto::cuda::fused {

constexpr int kTile = 128;  // rows and columns that a group of warps finishes at a time

void bias_product(const FusedProduct& p, cudaStream_t stream);
void add_product(const FusedProduct& p, cudaStream_t stream);
void gelu_product(const FusedProduct& p, cudaStream_t stream);
void dgelu_product(const FusedProduct& p, cudaStream_t stream);

}  // namespace stretto::cuda::fused
