#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/gelu.cuh"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAhead = 4;  // packs of a thread, all on their way before the first is worked on

template <typename T, int V, Gelu kForm>
__global__ void __launch_bounds__(kThreads)
    gelu_forward_kernel(T* out, const T* pre, int64_t packs) {
  const int64_t first = int64_t(blockIdx.x) * kThreads * kAhead + threadIdx.x;
  Pack<T, V> pack[kAhead];
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    const int64_t at = first + k * kThreads;
    if (at < packs) pack[k] = Pack<T, V>::load_streaming(pre + at * V);
  }
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    const int64_t at = first + k * kThreads;
    if (at >= packs) break;
    float value[V];
#pragma unroll
    for (int i = 0; i < V; ++i) value[i] = gelu<kForm>(pack[k][i]);
    pack[k].set_all(value);
    pack[k].store(out + at * V);
  }
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
            <<<blocks_for(packs, kThreads * kAhead), kThreads, 0, stream()>>>(
                data_of<T>(out), data_of<T>(pre), packs);
      });
    });
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
