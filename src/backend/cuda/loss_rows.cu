#include "backend/cuda/device.cuh"
#include "backend/cuda/loss_product.h"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kRowsPerBlock = 32;
constexpr int kPack = 8;
using Values = Pack<bf16, kPack>;

// A warp a row.
__global__ void __launch_bounds__(kThreads)
    target_kernel(LossRows rows, const bf16* inp, const bf16* weight, int count, int k) {
  const int row = int(blockIdx.x) * kWarps + int(threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= count) return;
  const bf16* const x = inp + int64_t(row) * k;
  const int wanted = rows.targets[row];
  const bf16* const w = weight + int64_t(rows.has(wanted) ? wanted : 0) * k;
  float sum = 0;
  for (int c = lane * kPack; c < k; c += 32 * kPack) {
    const Values a = Values::load(x + c), b = Values::load(w + c);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum = fmaf(a[i], b[i], sum);
  }
  sum = warp_sum(sum);
  if (lane == 0) rows.target[row] = sum;
}

__device__ __forceinline__ float factor_of(int wanted, float target, float lse, float scale) {
  return wanted < 0 ? 0.0f : scale * __expf(target - lse);
}

__device__ __forceinline__ void scale_row(bf16* to, const bf16* from, float factor, int k) {
  for (int c = int(threadIdx.x) % 32 * kPack; c < k; c += 32 * kPack) {
    const Values in = Values::load(from + c);
    float x[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = in[i] * factor;
    Values out;
    out.set_all(x);
    out.store(to + c);
  }
}

// A block 32 rows: its warps share their sums' parts, then each takes four of the rows. The target
// itself is among the sums, as 1 but for its rounding: all of them are no less.
__global__ void __launch_bounds__(kThreads)
    rows_kernel(bf16* scaled, bf16* logits, const float* parts, LossRows rows, const bf16* inp,
                int tiles, int m, int n, int k) {
  __shared__ float sums[kWarps][kRowsPerBlock];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first = int(blockIdx.x) * kRowsPerBlock;
  float sum = 0;
#pragma unroll 4
  for (int t = warp; t < tiles; t += kWarps) sum += parts[int64_t(t) * m + first + lane];
  sums[warp][lane] = sum;
  __syncthreads();
  for (int r = warp; r < kRowsPerBlock; r += kWarps) {
    const int row = first + r, wanted = rows.targets[row];
    const float all = at_least(warp_sum(lane < kWarps ? sums[lane % kWarps][r] : 0.0f), 1.0f);
    const float target = rows.target[row];
    const float lse = target + logf(all);
    if (lane == 0) {
      rows.lse[row] = lse;
      if (rows.has(wanted)) {
        logits[int64_t(row) * n + wanted] = from_float<bf16>(1.0f - all);
      }
    }
    const float factor = factor_of(wanted, target, lse, *rows.scale);
    scale_row(scaled + int64_t(row) * k, inp + int64_t(row) * k, factor, k);
  }
}

__global__ void __launch_bounds__(kThreads) scale_kernel(bf16* x, LossRows rows, int count, int k) {
  const int row = int(blockIdx.x) * kWarps + int(threadIdx.x) / 32;
  if (row >= count) return;
  const float factor = factor_of(rows.targets[row], rows.target[row], rows.lse[row], *rows.scale);
  scale_row(x + int64_t(row) * k, x + int64_t(row) * k, factor, k);
}

}  // namespace

void loss_targets(const LossRows& rows, const void* inp, const void* weight, const LossShape& s,
                  cudaStream_t stream) {
  target_kernel<<<static_cast<unsigned>((s.rows + kWarps - 1) / kWarps), kThreads, 0, stream>>>(
      rows, static_cast<const bf16*>(inp), static_cast<const bf16*>(weight),
      static_cast<int>(s.rows), static_cast<int>(s.k));
  CUDA_CHECK_LAUNCH();
}

void loss_rows(void* scaled, void* logits, const float* parts, const LossRows& rows,
               const void* inp, const LossShape& s, cudaStream_t stream) {
  rows_kernel<<<static_cast<unsigned>(s.rows / kRowsPerBlock), kThreads, 0, stream>>>(
      static_cast<bf16*>(scaled), static_cast<bf16*>(logits), parts, rows,
      static_cast<const bf16*>(inp), static_cast<int>(loss_product_tiles(s)),
      static_cast<int>(s.rows), static_cast<int>(s.n), static_cast<int>(s.k));
  CUDA_CHECK_LAUNCH();
}

void loss_scale_rows(void* x, const LossRows& rows, const LossShape& s, cudaStream_t stream) {
  scale_kernel<<<static_cast<unsigned>((s.rows + kWarps - 1) / kWarps), kThreads, 0, stream>>>(
      static_cast<bf16*>(x), rows, static_cast<int>(s.rows), static_cast<int>(s.k));
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
