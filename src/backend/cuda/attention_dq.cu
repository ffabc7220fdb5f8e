#include "backend/cuda/attention_dq.h"
#include "backend/cuda/column_sum.h"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/lanes.h"

namespace stretto::cuda::dq {
namespace {

constexpr int kThreads = 256;
using hopper::kGroup;

// The tile of a block: heads of the same rows, which lie side by side, come one after the other.
struct Tile {
  int64_t row;     // of (B, T)
  int64_t number;  // of a row in (B, H, T)
  int head;

  __device__ __forceinline__ Tile(int T, int heads) {
    const int tiles = T / kRows, rest = int(blockIdx.x) / heads;
    const int batch = rest / tiles, first = rest % tiles * kRows;
    head = int(blockIdx.x) % heads;
    row = int64_t(batch) * T + first;
    number = (int64_t(batch) * heads + head) * T + first;
  }
};

template <int kHalves, bool kZeros>
__global__ void __launch_bounds__(kThreads)
    begin_kernel(float* dq, float* starts, int* next, const bf16* dout, const bf16* out,
                 const float* lse, int T, int heads) {
  const Tile tile(T, heads);
  if (blockIdx.x == 0 && threadIdx.x < 2) next[threadIdx.x] = 0;
  constexpr int kLanes = 8 * kHalves, kAtOnce = kThreads / kLanes;  // of a row; rows
  const int lane = int(threadIdx.x) % kLanes;
#pragma unroll
  for (int pass = 0; pass < kRows / kAtOnce; ++pass) {
    const int row = pass * kAtOnce + int(threadIdx.x) / kLanes;
    const int64_t at = ((tile.row + row) * heads + tile.head) * (kColumns * kHalves) + lane * 8;
    const auto a = Pack<bf16, 8>::load(dout + at), b = Pack<bf16, 8>::load(out + at);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(a[i], b[i], sum);
    sum = warp_sum<kLanes>(sum);
    if (lane == 0) {
      starts[2 * tile.number + row] = -lse[tile.number + row] * kLog2e;
      starts[2 * tile.number + kRows + row] = -sum;
    }
  }
  if constexpr (kZeros) {
    float4* const zeros = reinterpret_cast<float4*>(dq + tile.number * (kColumns * kHalves));
#pragma unroll
    for (int i = 0; i < kHalves * kRows * kColumns / 4 / kThreads; ++i) {
      zeros[i * kThreads + threadIdx.x] = make_float4(0, 0, 0, 0);
    }
  }
}

constexpr int kTogether = 4;  // tiles of a head that a block takes one after the other

// A thread takes what four lanes had: eight columns of two rows. parts, unless null: the column
// sums of what a block took, a row of H D for each kTogether tiles of (B, T).
__global__ void __launch_bounds__(kThreads)
    finish_kernel(bf16* dqkv, float* parts, const float* dq, int T, int heads, int halves,
                  int tiles, float scale) {
  const int head = int(blockIdx.x) % heads, group = int(blockIdx.x) / heads, half = int(blockIdx.y);
  const int eight = int(threadIdx.x) % 8, row = int(threadIdx.x) / 8 % 8;
  const int warp = int(threadIdx.x) / 64;  // of those that had it
  const int width = halves * kColumns, column = head * width + half * kColumns + eight * 8;
  const int64_t stride = int64_t{3} * heads * width;
  float sums[8] = {};
#pragma unroll 2
  for (int tile = group * kTogether; tile < min(tiles, (group + 1) * kTogether); ++tile) {
    const int64_t first = int64_t(tile) * kRows, batch = first / T;
    const int64_t number = (batch * heads + head) * T + first % T;  // of a row in (B, H, T)
    const float4* const from =
        reinterpret_cast<const float4*>(dq + (number * halves + half * kRows) * kColumns) +
        eight * kGroup + warp * 32 + row * 4;
    float upper[8], lower[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 four = __ldcs(from + i);
      upper[2 * i] = four.x * scale;
      upper[2 * i + 1] = four.y * scale;
      lower[2 * i] = four.z * scale;
      lower[2 * i + 1] = four.w * scale;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] += upper[i] + lower[i];
    bf16* const to = dqkv + (first + warp * 16 + row) * stride + column;
    Pack<bf16, 8> two;
    two.set_all(upper);
    two.store(to);
    two.set_all(lower);
    two.store(to + 8 * stride);
  }
  if (parts == nullptr) return;
  __shared__ float shared[kThreads / 32][kColumns];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 8);
    sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 16);
    if (threadIdx.x % 32 < 8) shared[threadIdx.x / 32][eight * 8 + i] = sums[i];
  }
  __syncthreads();
  if (threadIdx.x >= kColumns) return;
  float total = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) total += shared[w][threadIdx.x];
  parts[(int64_t(group) * heads + head) * width + half * kColumns + threadIdx.x] = total;
}

unsigned tiles_of(const AttentionGeometry& g) {
  return static_cast<unsigned>(g.B * g.H * g.T / kRows);
}

int64_t parts_of(const AttentionGeometry& g) {
  return (g.B * g.T / kRows + kTogether - 1) / kTogether;
}

}  // namespace

Sums begin(const AttentionBackward& call, bool adds_dq, Workspace& scratch, cudaStream_t stream) {
  const AttentionGeometry& g = call.shape;
  const int64_t rows = g.B * g.H * g.T, columns = adds_dq ? g.D : 0;
  const int64_t parts = adds_dq ? parts_of(g) * g.H * g.D : 0;
  float* const sums = static_cast<float*>(scratch.reserve(
      static_cast<size_t>(rows * (columns + 2) + parts) * sizeof(float) + 2 * sizeof(int), stream));
  float* const starts = sums + rows * columns;
  int* const next = reinterpret_cast<int*>(starts + 2 * rows + parts);
  const auto kernel = g.D == kColumns ? (adds_dq ? begin_kernel<1, true> : begin_kernel<1, false>)
                                      : (adds_dq ? begin_kernel<2, true> : begin_kernel<2, false>);
  kernel<<<tiles_of(g), kThreads, 0, stream>>>(
      sums, starts, next, static_cast<const bf16*>(call.dout), static_cast<const bf16*>(call.out),
      call.lse, static_cast<int>(g.T), static_cast<int>(g.H));
  CUDA_CHECK_LAUNCH();
  return {adds_dq ? sums : nullptr, starts, adds_dq ? starts + 2 * rows : nullptr, next};
}

void finish(const AttentionBackward& call, const Sums& sums, cudaStream_t stream) {
  const AttentionGeometry& g = call.shape;
  const auto parts = static_cast<int>(parts_of(g));
  const dim3 grid(static_cast<unsigned>(parts * g.H), static_cast<unsigned>(g.D / kColumns));
  finish_kernel<<<grid, kThreads, 0, stream>>>(
      static_cast<bf16*>(call.dqkv), call.dq_sums ? sums.parts : nullptr, sums.dq,
      static_cast<int>(g.T), static_cast<int>(g.H), static_cast<int>(grid.y),
      static_cast<int>(g.B * g.T / kRows), attention_scale(g));
  CUDA_CHECK_LAUNCH();
  if (call.dq_sums) sum_parts(call.dq_sums, sums.parts, parts, Grad::accumulate, stream);
}

}  // namespace stretto::cuda::dq
