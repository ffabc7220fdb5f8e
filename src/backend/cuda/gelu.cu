#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/gelu.cuh"

namespace stretto::cuda {
namespace {

template <typename T, int V, Gelu kForm>
__global__ void gelu_forward_kernel(T* out, const T* pre, int64_t packs) {
  const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  auto pack = Pack<T, V>::load_streaming(pre + index * V);
#pragma unroll
  for (int i = 0; i < V; ++i) pack.set(i, gelu<kForm>(pack[i]));
  pack.store(out + index * V);
}

}  // namespace

void CudaBackend::do_gelu_forward(Tensor out, ConstTensor pre, Gelu form) {
  if (out.count() == 0) return;
  with_float_type(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_vector<T>(can_vectorise<T>(out.count(), out.data(), pre.data()), [&](auto vector) {
      constexpr int V = decltype(vector)::value;
      const int64_t packs = out.count() / V;
      with_gelu(form, [&](auto gelu_form) {
        gelu_forward_kernel<T, V, decltype(gelu_form)::value>
            <<<blocks_for(packs, 256), 256, 0, stream()>>>(data_of<T>(out), data_of<T>(pre), packs);
      });
    });
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
