// Matrix products whose epilogue is our own: CUTLASS kernels for Hopper (compute capability 9.0) in
// which one group of warps multiplies while another finishes the tile before. bf16, f32 sums.
//
// No CUTLASS type leaves this folder. A build without its headers has none of them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/gelu.h"

namespace stretto::cuda {

// Row-major operands, each row aligned to 16 bytes.
struct FusedProduct {
  enum class Kind : uint8_t {
    bias,   // out = inp weight^T + bias
    add,    // out = inp weight^T + bias + addend
    gelu,   // pre = inp weight^T + bias; out = gelu(pre)
    dgelu,  // out = (inp weight) * gelu'(pre); partial = column sums of out
  };
  Kind kind = Kind::bias;
  Gelu form = Gelu::none;
  int64_t rows = 0, n = 0, k = 0;  // out (rows, n), inp (rows, k)
  const void* inp = nullptr;
  const void* weight = nullptr;  // (n, k); dgelu: (k, n)
  void* out = nullptr;
  const void* bias = nullptr;    // (n); may be null
  void* pre = nullptr;           // (rows, n); gelu: may be null
  const void* addend = nullptr;  // (rows, n)
  float* partial = nullptr;      // (fused_parts(), n) f32; may be null
};

bool fused_fits(const FusedProduct& product, int compute_capability);
int fused_parts(int64_t rows);  // rows of `partial`
void run_fused(const FusedProduct& product, cudaStream_t stream);

}  // namespace stretto::cuda
