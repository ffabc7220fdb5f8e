#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"

namespace stretto::cuda {
namespace {

// No __restrict__: out may be a or b.
template <typename T, int V>
__global__ void add_kernel(T* out, const T* a, const T* b, int64_t packs) {
  const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  auto pa = Pack<T, V>::load_streaming(a + index * V);
  const auto pb = Pack<T, V>::load_streaming(b + index * V);
#pragma unroll
  for (int i = 0; i < V; ++i) pa.set(i, pa[i] + pb[i]);
  pa.store(out + index * V);
}

}  // namespace

void CudaBackend::do_add(Tensor out, ConstTensor a, ConstTensor b) {
  if (out.count() == 0) return;
  with_float_type(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_vector<T>(can_vectorise<T>(out.count(), out.data(), a.data(), b.data()), [&](auto vector) {
      constexpr int V = decltype(vector)::value;
      const int64_t packs = out.count() / V;
      add_kernel<T, V><<<blocks_for(packs, 256), 256, 0, stream()>>>(data_of<T>(out), data_of<T>(a),
                                                                     data_of<T>(b), packs);
    });
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
