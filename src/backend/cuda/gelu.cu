#include "backend/cuda/column_sum.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/gelu.cuh"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAhead = 4;  // packs of a thread, all on their way before the first is worked on

// With kDerivative, pre becomes that.
template <typename T, int V, Gelu kForm, bool kDerivative>
__global__ void __launch_bounds__(kThreads)
    gelu_forward_kernel(T* out, std::conditional_t<kDerivative, T, const T>* pre, int64_t packs) {
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
    float value[V], derivative[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const GeluAt<kForm> here(pack[k][i]);
      value[i] = here.value;
      derivative[i] = here.derivative;
    }
    pack[k].set_all(value);
    pack[k].store(out + at * V);
    if constexpr (kDerivative) {
      pack[k].set_all(derivative);
      pack[k].store(pre + at * V);
    }
  }
}

template <bool kDerivative, typename Pre>
void launch(Tensor out, const Pre& pre, Gelu form, cudaStream_t stream) {
  if (out.count() == 0) return;
  with_float_type(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_vector<T>(can_vectorise<T>(out.count(), out.data(), pre.data()), [&](auto vector) {
      constexpr int V = decltype(vector)::value;
      const int64_t packs = out.count() / V;
      with_gelu(form, [&](auto gelu_form) {
        gelu_forward_kernel<T, V, decltype(gelu_form)::value, kDerivative>
            <<<blocks_for(packs, kThreads * kAhead), kThreads, 0, stream>>>(data_of<T>(out),
                                                                            data_of<T>(pre), packs);
      });
    });
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace

void CudaBackend::do_gelu_forward(Tensor out, ConstTensor pre, Gelu form) {
  launch<false>(out, pre, form, stream());
}

void gelu_with_derivative(Tensor out, Tensor pre, Gelu form, cudaStream_t stream) {
  launch<true>(out, pre, form, stream);
}

}  // namespace stretto::cuda
