// Gradient statistics in two stages: a fixed number of blocks, then their results in block order.
// Squares are summed in double: those of small gradients underflow in f32.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;       // of one part at most
constexpr int kPacksPerThread = 8;  // before another block is worth its start

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    stats_kernel(double* partial, const T* grad, int64_t packs) {
  grad += int64_t(blockIdx.y) * packs * V;
  partial += int64_t(blockIdx.y) * gridDim.x * 3;
  double squares = 0;
  int64_t zeros = 0, bad = 0;
#pragma unroll 4
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < packs;
       i += int64_t(gridDim.x) * kThreads) {
    const auto pack = Pack<T, V>::load_streaming(grad + i * V);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const float x = pack[j];
      squares += static_cast<double>(x) * static_cast<double>(x);
      zeros += x == 0.0f;
      bad += !isfinite(x);
    }
  }
  __shared__ double shared[3][32];
  squares = block_sum(squares, shared[0]);
  const double zero_sum = block_sum(static_cast<double>(zeros), shared[1]);
  const double bad_sum = block_sum(static_cast<double>(bad), shared[2]);
  if (threadIdx.x == 0) {
    partial[blockIdx.x * 3] = squares;
    partial[blockIdx.x * 3 + 1] = zero_sum;
    partial[blockIdx.x * 3 + 2] = bad_sum;
  }
}

__global__ void __launch_bounds__(kBlocks)
    finish_kernel(double* stats, const double* partial, int parts) {
  __shared__ double shared[3][32];
  stats += int64_t(blockIdx.x) * 3;
  partial += int64_t(blockIdx.x) * parts * 3;
  for (int k = 0; k < 3; ++k) {
    const double x = static_cast<int>(threadIdx.x) < parts ? partial[threadIdx.x * 3 + k] : 0.0;
    const double sum = block_sum(x, shared[k]);
    if (threadIdx.x == 0) stats[k] += sum;
  }
}

// In order, by one thread per sum; the others fetch ahead, since each load alone takes long.
__global__ void __launch_bounds__(kThreads)
    sum_stats_kernel(double* sum, const double* rows, int values) {
  constexpr int kAtOnce = 3 * kThreads;
  __shared__ double shared[kAtOnce];
  double total = 0;
  for (int begin = 0; begin < values; begin += kAtOnce) {
    const int count = min(kAtOnce, values - begin);
    for (int i = threadIdx.x; i < count; i += kThreads) shared[i] = rows[begin + i];
    __syncthreads();
    for (int i = threadIdx.x; threadIdx.x < 3 && i < count; i += 3) total += shared[i];
    __syncthreads();
  }
  if (threadIdx.x < 3) sum[threadIdx.x] = total;
}

__global__ void clip_control_kernel(float* control, const double* stats, float clip,
                                    float grad_scale) {
  const double norm = sqrt(stats[0]) * grad_scale;
  const bool skip = stats[2] != 0 || !isfinite(norm);
  const double shrink = clip > 0 && norm > clip ? clip / norm : 1.0;
  control[0] = skip ? 0.0f : static_cast<float>(grad_scale * shrink);
  control[1] = skip ? 1.0f : 0.0f;
}

}  // namespace

// The number of blocks depends on the size of a part alone: a rank that holds some of the parts
// finds the same sums for them.
void CudaBackend::do_gradient_stats(Tensor stats, ConstTensor grad) {
  if (grad.count() == 0) return;
  const int64_t parts = stats.count() / 3, size = grad.count() / parts;
  with_float_type(grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_vector<T>(can_vectorise<T>(size, grad.data()), [&](auto vector) {
      constexpr int V = decltype(vector)::value;
      const int64_t packs = size / V;
      const int blocks = std::min(kBlocks, blocks_for(packs, kThreads * kPacksPerThread));
      double* partial = scratch<double>(parts * blocks * 3);
      const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(parts));
      stats_kernel<T, V><<<grid, kThreads, 0, stream()>>>(partial, data_of<T>(grad), packs);
      CUDA_CHECK_LAUNCH();
      finish_kernel<<<static_cast<unsigned>(parts), kBlocks, 0, stream()>>>(data_of<double>(stats),
                                                                            partial, blocks);
    });
  });
  CUDA_CHECK_LAUNCH();
}

void CudaBackend::do_sum_stats(Tensor sum, ConstTensor rows) {
  sum_stats_kernel<<<1, kThreads, 0, stream()>>>(data_of<double>(sum), data_of<double>(rows),
                                                 static_cast<int>(rows.count()));
  CUDA_CHECK_LAUNCH();
}

void CudaBackend::do_clip_control(Tensor control, ConstTensor stats, float clip, float grad_scale) {
  clip_control_kernel<<<1, 1, 0, stream()>>>(data_of<float>(control), data_of<double>(stats), clip,
                                             grad_scale);
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
