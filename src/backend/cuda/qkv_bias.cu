// The values' part of the gradient of qkv's bias: that of proj's bias, taken back through proj.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"

namespace stretto::cuda {
namespace {

constexpr int kLanes = 8;   // column packs of a block: 128 contiguous bytes of a row
constexpr int kRows = 128;  // rows that a block works on at once

// out (c) = weight (n, c)^T x (n). A block owns its columns: sums are in a fixed order.
template <typename T, int V, typename G>
__global__ void __launch_bounds__(kLanes* kRows)
    transposed_product_kernel(G* out, const T* weight, const G* x, int64_t n, int64_t c) {
  const int64_t column = (int64_t(blockIdx.x) * kLanes + threadIdx.x) * V;
  float sum[V] = {};
  if (column < c) {
#pragma unroll 4
    for (int64_t row = threadIdx.y; row < n; row += kRows) {
      const auto pack = Pack<T, V>::load(weight + row * c + column);
      const float factor = as_float(x[row]);
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] = fmaf(factor, pack[i], sum[i]);
    }
  }
  __shared__ float shared[kRows][kLanes * V];
#pragma unroll
  for (int i = 0; i < V; ++i) shared[threadIdx.y][threadIdx.x * V + i] = sum[i];
  __syncthreads();
  const int own = threadIdx.y * kLanes + threadIdx.x;
  const int64_t at = int64_t(blockIdx.x) * kLanes * V + own;
  if (own >= kLanes * V || at >= c) return;
  float total = 0;
#pragma unroll 8
  for (int r = 0; r < kRows; ++r) total += shared[r][own];
  out[at] = from_float<G>(total);
}

}  // namespace

void CudaBackend::do_qkv_bias_backward(Tensor dbias, ConstTensor proj_weight,
                                       ConstTensor dproj_bias) {
  const int64_t n = proj_weight.rows(), c = proj_weight.last();
  const Tensor values = dbias.slice(2 * c, 3 * c);
  with_float_type(proj_weight.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_float_type(values.dtype(), [&](auto gradient) {
      using G = typename decltype(gradient)::type;
      with_vector<T>(can_vectorise<T>(c, proj_weight.data()), [&](auto vector) {
        constexpr int V = decltype(vector)::value;
        transposed_product_kernel<T, V, G>
            <<<blocks_for(c, kLanes * V), dim3(kLanes, kRows), 0, stream()>>>(
                data_of<G>(values), data_of<T>(proj_weight), data_of<G>(dproj_bias), n, c);
      });
    });
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
