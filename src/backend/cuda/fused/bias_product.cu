// out = inp weight^T + bias.
#include "backend/cuda/fused/kernel.cuh"

namespace stretto::cuda::fused {

void bias_product(const FusedProduct& p, cudaStream_t stream) {
  using Visitor = fusion::Sm90EVT<Plus<Bf16>, fusion::Sm90AccFetch, Bias>;
  using K = Kernel<Visitor, void, true>;
  K::run(p, {{}, {static_cast<const Bf16*>(p.bias)}, {}}, nullptr, stream);
}

}  // namespace stretto::cuda::fused
