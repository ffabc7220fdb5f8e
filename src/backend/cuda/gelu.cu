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

constexpr int kLanes = 32, kRows = 8;  // of a block: column packs, rows at once
constexpr int kAhead = 4;              // rows of a thread, loaded together

// Each thread keeps the bias of its columns and walks down rows.
template <typename T, int V, Gelu kForm>
__global__ void __launch_bounds__(kLanes* kRows)
    gelu_biased_kernel(T* out, const T* pre, const T* bias, int64_t rows, int64_t n) {
  const int64_t column = (int64_t(blockIdx.x) * kLanes + threadIdx.x) * V;
  if (column >= n) return;
  const auto shift = Pack<T, V>::load(bias + column);
  const int64_t first = int64_t(blockIdx.y) * kRows * kAhead + threadIdx.y;
  Pack<T, V> packs[kAhead];
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    const int64_t row = first + k * kRows;
    if (row < rows) packs[k] = Pack<T, V>::load_streaming(pre + row * n + column);
  }
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    const int64_t row = first + k * kRows;
    if (row >= rows) break;
    float value[V];
#pragma unroll
    for (int i = 0; i < V; ++i) value[i] = gelu<kForm>(packs[k][i] + shift[i]);
    packs[k].set_all(value);
    packs[k].store(out + row * n + column);
  }
}

}  // namespace

void gelu_biased(Tensor out, ConstTensor pre, ConstTensor bias, Gelu form, cudaStream_t stream) {
  const int64_t rows = out.rows(), n = out.last();
  with_float_type(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_vector<T>(can_vectorise<T>(n, out.data(), pre.data(), bias.data()), [&](auto vector) {
      constexpr int V = decltype(vector)::value;
      const dim3 grid(blocks_for(n, kLanes * V), blocks_for(rows, kRows * kAhead));
      with_gelu(form, [&](auto gelu_form) {
        gelu_biased_kernel<T, V, decltype(gelu_form)::value>
            <<<grid, dim3(kLanes, kRows), 0, stream>>>(data_of<T>(out), data_of<T>(pre),
                                                       data_of<T>(bias), rows, n);
      });
    });
  });
  CUDA_CHECK_LAUNCH();
}

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
