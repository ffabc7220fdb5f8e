// Conversions between all float types, rounded to nearest even; the 8-bit types saturate.
#include <cuda_fp8.h>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"

namespace stretto::cuda {
namespace {

template <typename T>
__device__ __forceinline__ float widen(T x) {
  return static_cast<float>(x);
}

template <typename D, typename S, int V>
__global__ void convert_kernel(D* dst, const S* src, int64_t packs) {
  const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  struct alignas(sizeof(S) * V) In {
    S value[V];
  };
  struct alignas(sizeof(D) * V) Out {
    D value[V];
  } out;
  const In in = reinterpret_cast<const In*>(src)[index];
#pragma unroll
  for (int i = 0; i < V; ++i) out.value[i] = D(widen(in.value[i]));
  reinterpret_cast<Out*>(dst)[index] = out;
}

template <typename F>
void with_any_float_type(DType type, F&& f) {
  if (type == DType::f8e4m3) return f(Type<__nv_fp8_e4m3>{});
  if (type == DType::f8e5m2) return f(Type<__nv_fp8_e5m2>{});
  with_float_type(type, f);
}

}  // namespace

void CudaBackend::do_convert(Tensor dst, ConstTensor src) {
  if (dst.count() == 0) return;
  if (dst.dtype() == src.dtype()) return do_copy(dst, src);
  with_any_float_type(dst.dtype(), [&](auto to) {
    with_any_float_type(src.dtype(), [&](auto from) {
      using D = typename decltype(to)::type;
      using S = typename decltype(from)::type;
      if constexpr (!std::is_same_v<D, S>) {
        // Elements per thread by the wider type, so that neither access exceeds 16 bytes.
        using Wide = std::conditional_t<(sizeof(D) > sizeof(S)), D, S>;
        with_vector<Wide>(can_vectorise<Wide>(dst.count(), dst.data(), src.data()),
                          [&](auto vector) {
                            constexpr int V = decltype(vector)::value;
                            const int64_t packs = dst.count() / V;
                            convert_kernel<D, S, V><<<blocks_for(packs, 256), 256, 0, stream()>>>(
                                data_of<D>(dst), data_of<S>(src), packs);
                          });
      }
    });
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
