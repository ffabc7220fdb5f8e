// Cross-entropy over rows of logits: one block per row. Forward reads the row once (running maximum
// and sum together); backward reads and writes it once, in place.
#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 512;

// What exponents are taken relative to: a row of minus infinity so far sums to 0 for any choice.
__device__ __forceinline__ float reference_for(float top) { return top == -INFINITY ? 0.0f : top; }

// Sum of exp(x - max) over what was seen so far. NaN must come through: the maximum drops it, the
// sum keeps it.
struct Running {
  float max = -INFINITY;
  float sum = 0;

  __device__ void merge(float other_max, float other_sum) {
    const float top = fmaxf(max, other_max), reference = reference_for(top);
    sum = sum * __expf(max - reference) + other_sum * __expf(other_max - reference);
    max = top;
  }
};

__device__ Running warp_merge(Running r) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const float max = __shfl_xor_sync(0xffffffffu, r.max, offset);
    const float sum = __shfl_xor_sync(0xffffffffu, r.sum, offset);
    r.merge(max, sum);
  }
  return r;
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(float* lse, float* target, const T* logits, const int32_t* targets,
                   int64_t columns, int64_t valid, int64_t vocab_begin) {
  const int64_t row = blockIdx.x;
  const T* x = logits + row * columns;
  Running running;
  constexpr int kAhead = 4;  // packs in flight: one at a time would wait for memory
  constexpr int64_t kStride = int64_t(kThreads) * V;
  for (int64_t first = int64_t(threadIdx.x) * V; first < valid; first += kAhead * kStride) {
    Pack<T, V> packs[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (first + k * kStride < valid) packs[k] = Pack<T, V>::load(x + first + k * kStride);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t c = first + k * kStride;
      if (c >= valid) break;
      float top = running.max;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if (c + i < valid) top = fmaxf(top, packs[k][i]);
      }
      const float reference = reference_for(top);
      float sum = running.sum * __expf(running.max - reference);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        if (c + i < valid) sum += __expf(packs[k][i] - reference);
      }
      running = {top, sum};
    }
  }
  running = warp_merge(running);
  __shared__ Running shared[kThreads / 32];
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = running;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kThreads / 32; ++w) running.merge(shared[w].max, shared[w].sum);
  lse[row] = running.max + logf(running.sum);
  const int32_t wanted = targets[row];
  const int64_t local = wanted - vocab_begin;
  target[row] = wanted >= 0 && local >= 0 && local < valid ? as_float(x[local]) : 0.0f;
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(T* logits, const float* lse, const int32_t* targets, const float* scale,
                    int64_t columns, int64_t valid, int64_t vocab_begin) {
  const int64_t row = blockIdx.x;
  T* x = logits + row * columns;
  const int32_t wanted = targets[row];
  const int64_t local = wanted < 0 ? -1 : wanted - vocab_begin;
  const float factor = *scale, row_lse = lse[row];
  for (int64_t c = int64_t(threadIdx.x) * V; c < columns; c += int64_t(kThreads) * V) {
    auto pack = Pack<T, V>::load(x + c);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float p = __expf(pack[i] - row_lse) - (c + i == local ? 1.0f : 0.0f);
      pack.set(i, wanted >= 0 && c + i < valid ? p * factor : 0.0f);
    }
    pack.store(x + c);
  }
}

__global__ void combine_lse_kernel(float* lse, const float* parts, int64_t rows, int count) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  Running running;
  for (int p = 0; p < count; ++p) running.merge(parts[p * rows + row], 1.0f);
  lse[row] = running.max + logf(running.sum);
}

__global__ void __launch_bounds__(1024)
    loss_kernel(double* loss_sum, const float* lse, const float* target, const int32_t* targets,
                int64_t rows) {
  __shared__ double shared[32];
  double sum = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    if (targets[row] >= 0) sum += static_cast<double>(lse[row]) - static_cast<double>(target[row]);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) *loss_sum += sum;
}

// Columns of the shard that are real words, not padding.
int64_t valid_columns(int64_t columns, VocabRange vocab) {
  return std::clamp<int64_t>(vocab.size - vocab.begin, 0, columns);
}

}  // namespace

void CudaBackend::do_cross_entropy_forward(Tensor lse, Tensor target, ConstTensor logits,
                                           ConstTensor targets, VocabRange vocab) {
  if (logits.rows() == 0) return;
  const int64_t columns = logits.last();
  with_float_type(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_vector<T>(can_vectorise<T>(columns, logits.data()), [&](auto vector) {
      forward_kernel<T, decltype(vector)::value>
          <<<static_cast<unsigned>(logits.rows()), kThreads, 0, stream()>>>(
              data_of<float>(lse), data_of<float>(target), data_of<T>(logits),
              data_of<int32_t>(targets), columns, valid_columns(columns, vocab), vocab.begin);
    });
  });
  CUDA_CHECK_LAUNCH();
}

void CudaBackend::do_combine_lse(Tensor lse, ConstTensor parts) {
  const int64_t rows = lse.count();
  if (rows == 0) return;
  combine_lse_kernel<<<blocks_for(rows, 256), 256, 0, stream()>>>(
      data_of<float>(lse), data_of<float>(parts), rows, static_cast<int>(parts.count() / rows));
  CUDA_CHECK_LAUNCH();
}

void CudaBackend::do_cross_entropy_loss(Tensor loss_sum, ConstTensor lse, ConstTensor target,
                                        ConstTensor targets) {
  loss_kernel<<<1, 1024, 0, stream()>>>(data_of<double>(loss_sum), data_of<float>(lse),
                                        data_of<float>(target), data_of<int32_t>(targets),
                                        lse.count());
  CUDA_CHECK_LAUNCH();
}

void CudaBackend::do_cross_entropy_backward(Tensor logits, ConstTensor lse, ConstTensor targets,
                                            ConstTensor scale, VocabRange vocab) {
  if (logits.rows() == 0) return;
  const int64_t columns = logits.last();
  with_float_type(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_vector<T>(can_vectorise<T>(columns, logits.data()), [&](auto vector) {
      backward_kernel<T, decltype(vector)::value>
          <<<static_cast<unsigned>(logits.rows()), kThreads, 0, stream()>>>(
              data_of<T>(logits), data_of<float>(lse), data_of<int32_t>(targets),
              data_of<float>(scale), columns, valid_columns(columns, vocab), vocab.begin);
    });
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
