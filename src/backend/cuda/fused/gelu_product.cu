// out = gelu(inp weight^T + bias), and the value before GELU beside it.
#include "backend/cuda/fused/elementwise.cuh"
#include "backend/cuda/fused/kernel.cuh"

namespace stretto::cuda::fused {

void gelu_product(const FusedProduct& p, cudaStream_t stream) {
  // GELU sees the rounded value, as the backward pass will.
  using Before = fusion::Sm90EVT<Plus<Bf16>, fusion::Sm90AccFetch, Bias>;
  using Kept = fusion::Sm90EVT<Stored, Before>;
  using Value = fusion::Sm90Compute<Forms<Gelu::tanh>::Value, Bf16, float, kNearest>;
  using K = Kernel<fusion::Sm90EVT<Value, Kept>, void, true>;
  const K::VisitorArguments visitor{
      {{{}, {static_cast<const Bf16*>(p.bias)}, {}}, {static_cast<Bf16*>(p.pre), {p.n, _1{}, 0}}},
      {}};
  K::run(p, visitor, nullptr, stream);
}

}  // namespace stretto::cuda::fused
