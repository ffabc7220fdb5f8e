// For kernels that walk rows with a block: asynchronous copies into shared memory, and sums of
// several values at once.
#pragma once

#include "backend/cuda/device.cuh"

namespace stretto::cuda {

constexpr int kMostThreads = 512;  // of a block that owns rows

__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
               "l"(global));
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Sums N values (a power of two) over the lanes of a warp: lane l ends with value number
// l / (32 / N). Halving the values while halving the lanes takes N + log2(32 / N) exchanges, not 5
// N.
template <int N>
__device__ __forceinline__ float sum_lanes(float (&x)[N]) {
  const int lane = threadIdx.x % 32;
  int offset = 16;
#pragma unroll
  for (int count = N; count > 1; count /= 2, offset /= 2) {
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      const float send = upper ? x[i] : x[i + count / 2];
      const float keep = upper ? x[i + count / 2] : x[i];
      x[i] = keep + __shfl_xor_sync(0xffffffffu, send, offset);
    }
  }
#pragma unroll
  for (; offset > 0; offset /= 2) x[0] += __shfl_xor_sync(0xffffffffu, x[0], offset);
  return x[0];
}

// Sums N values over the block; lane l of every warp ends with the total of value l / (32 / N).
// `shared` holds N rows of kMostThreads / 32 and may be reused after the caller's next barrier.
template <int N>
__device__ __forceinline__ float block_totals(float (&x)[N],
                                              float (&shared)[N][kMostThreads / 32]) {
  constexpr int kPer = 32 / N;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const float partial = sum_lanes(x);
  if (lane % kPer == 0) shared[lane / kPer][warp] = partial;
  __syncthreads();
  // Lanes share the warps' sums of each value.
  float total = 0;
  for (int w = lane % kPer; w < warps; w += kPer) total += shared[lane / kPer][w];
#pragma unroll
  for (int offset = kPer / 2; offset > 0; offset /= 2) {
    total += __shfl_xor_sync(0xffffffffu, total, offset);
  }
  return total;
}

}  // namespace stretto::cuda
