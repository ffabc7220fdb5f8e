// Loss and gradient of whole rows of logits in one read and one write: a block keeps its row in
// shared memory between finding its log-sum-exp and writing the gradient in its place. The whole
// row is on its way at once. Two blocks share a multiprocessor, so that one loads while the other
// stores.
#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/row_pipeline.cuh"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kParts = 4;  // of a row's way: the first is summed while the last still arrives

// Sum of exp(x - max) over what was seen so far. NaN comes through: the maximum drops it, the sum
// keeps it.
struct Running {
  float max, sum;

  // A row of minus infinity so far sums to 0 for any choice.
  __device__ static float reference(float top) { return top == -INFINITY ? 0.0f : top; }
  __device__ __forceinline__ void merge(float other_max, float other_sum) {
    const float top = fmaxf(max, other_max), ref = reference(top);
    sum = sum * __expf(max - ref) + other_sum * __expf(other_max - ref);
    max = top;
  }
};

// The whole pack counts.
template <typename T, int V>
__device__ __forceinline__ void take(Running& r, const Pack<T, V>& pack) {
  float top = r.max;
#pragma unroll
  for (int i = 0; i < V; ++i) top = fmaxf(top, pack[i]);
  const float ref = Running::reference(top), shift = -ref * kLog2e;
  float sum = r.sum * __expf(r.max - ref);
#pragma unroll
  for (int i = 0; i < V; ++i) sum += power_of_two(fmaf(pack[i], kLog2e, shift));
  r = {top, sum};
}

// Of all lanes, known to each: the maximum first, so that one exponential per lane is enough.
__device__ __forceinline__ Running merge_lanes(Running r) {
  const float top = warp_max(r.max);
  return {top, warp_sum(r.sum * __expf(r.max - Running::reference(top)))};
}

template <typename T, int V>
__global__ void __launch_bounds__(kThreads, 2)
    fused_kernel(T* logits, float* lse, float* target, const int32_t* targets, const float* scale,
                 int columns, int valid, int vocab_begin) {
  extern __shared__ int4 memory[];
  __shared__ float2 parts[kThreads / 32];
  T* row = reinterpret_cast<T*>(memory);
  T* x = logits + int64_t(blockIdx.x) * columns;
  const int wanted = targets[blockIdx.x];
  const float factor = *scale;
  constexpr int kStride = kThreads * V;
  const int whole = valid / V * V;  // up to here packs hold real words only
  const int steps = (whole + kStride - 1) / kStride, length = (steps + kParts - 1) / kParts;
  const auto each_pack = [&](int number, const auto& work) {
    const int end = min(whole, (number + 1) * length * kStride);
    for (int c = number * length * kStride + threadIdx.x * V; c < end; c += kStride) work(c);
  };
#pragma unroll
  for (int number = 0; number < kParts; ++number) {
    each_pack(number, [&](int c) { copy_async(row + c, x + c); });
    commit_copies();
  }
  Running running{-INFINITY, 0.0f};
  const auto sum_part = [&](int number) {  // each thread reads what it fetched itself
    each_pack(number, [&](int c) { take(running, Pack<T, V>::load(row + c)); });
  };
  wait_copies<3>();
  sum_part(0);
  wait_copies<2>();
  sum_part(1);
  wait_copies<1>();
  sum_part(2);
  wait_copies<0>();
  sum_part(3);
  static_assert(kParts == 4);
  // The last words, if they fill no pack.
  if (const int c = whole + threadIdx.x; c < valid) {
    row[c] = x[c];
    running.merge(as_float(row[c]), 1.0f);
  }
  running = merge_lanes(running);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = {running.max, running.sum};
  __syncthreads();
  const float2 part = parts[threadIdx.x % (kThreads / 32)];  // every warp has all of them, twice
  running = merge_lanes({part.x, threadIdx.x % 32 < kThreads / 32 ? part.y : 0.0f});

  const int local = wanted < 0 ? -1 : wanted - vocab_begin;
  const float row_lse = running.max + logf(running.sum);
  if (threadIdx.x == 0) {
    lse[blockIdx.x] = row_lse;
    target[blockIdx.x] = local >= 0 && local < valid ? as_float(row[local]) : 0.0f;
  }
  const float shift = -row_lse * kLog2e;
#pragma unroll 2
  for (int c = threadIdx.x * V; c < columns; c += kStride) {
    Pack<T, V> pack{};
    if (c < valid && wanted >= 0) {
      pack = Pack<T, V>::load(row + c);
      const bool special = c + V > valid || (local >= c && local < c + V);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        float p = power_of_two(fmaf(pack[i], kLog2e, shift));
        if (special) {  // the target, or beyond the last word
          p = c + i == local ? p - 1.0f : p;
          p = c + i < valid ? p : 0.0f;
        }
        pack.set(i, p * factor);
      }
    }
    pack.store_streaming(x + c);
  }
}

}  // namespace

bool CudaBackend::fuses_cross_entropy(const Tensor& logits) const {
  const size_t row = static_cast<size_t>(logits.last()) * dtype_size(logits.dtype());
  // Two blocks with a row each, and a kilobyte that the system keeps per block.
  return aligned_to_16(logits.data()) && row % 16 == 0 &&
         2 * (row + 2048) <= properties_.sharedMemPerMultiprocessor;
}

void CudaBackend::do_cross_entropy_in_place(Tensor lse, Tensor target, Tensor loss_sum,
                                            Tensor logits, ConstTensor targets, ConstTensor scale,
                                            VocabRange vocab) {
  logits_to_gradient(lse, target, logits, targets, scale, vocab);
  do_cross_entropy_loss(loss_sum, lse, target, targets);
}

void CudaBackend::logits_to_gradient(Tensor lse, Tensor target, Tensor logits, ConstTensor targets,
                                     ConstTensor scale, VocabRange vocab) {
  if (!fuses_cross_entropy(logits)) {
    do_cross_entropy_forward(lse, target, logits, targets, vocab);
    return do_cross_entropy_backward(logits, lse, targets, scale, vocab);
  }
  const auto columns = static_cast<int>(logits.last());
  const auto valid = static_cast<int>(std::clamp<int64_t>(vocab.size - vocab.begin, 0, columns));
  with_float_type(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* kernel = fused_kernel<T, kVector<T>>;
    const size_t bytes = static_cast<size_t>(columns) * sizeof(T);
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)));
    kernel<<<static_cast<unsigned>(logits.rows()), kThreads, bytes, stream()>>>(
        data_of<T>(logits), data_of<float>(lse), data_of<float>(target), data_of<int32_t>(targets),
        data_of<float>(scale), columns, valid, static_cast<int>(vocab.begin));
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
