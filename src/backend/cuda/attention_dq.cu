#include "backend/cuda/attention_dq.h"
#include "backend/cuda/column_sum.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/lanes.h"

namespace stretto::cuda::dq {
namespace {

constexpr int kThreads = 256;

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

template <int kHalves>
__global__ void __launch_bounds__(kThreads)
    begin_kernel(float* starts, int* turns, int* next, const bf16* dout, const bf16* out,
                 const float* lse, int T, int heads) {
  const Tile tile(T, heads);
  if (blockIdx.x == 0 && threadIdx.x == 0) *next = 0;
  if (threadIdx.x < kHalves) turns[tile.number / kRows * kHalves + threadIdx.x] = 0;
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
}

unsigned tiles_of(const AttentionGeometry& g) {
  return static_cast<unsigned>(g.B * g.H * g.T / kRows);
}

}  // namespace

Sums begin(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream) {
  const AttentionGeometry& g = call.shape;
  const int64_t rows = g.B * g.H * g.T, tiles = rows / kRows * (g.D / kColumns);
  const int64_t parts = call.dq_sums ? g.B * g.T / kRows * g.H * g.D : 0;
  const auto words = static_cast<size_t>(rows * (g.D + 2) + parts + tiles + 1);
  float* const dq = static_cast<float*>(scratch.reserve(words * sizeof(float), stream));
  float* const starts = dq + rows * g.D;
  float* const sums = starts + 2 * rows;
  int* const turns = reinterpret_cast<int*>(sums + parts);
  const auto kernel = g.D == kColumns ? begin_kernel<1> : begin_kernel<2>;
  kernel<<<tiles_of(g), kThreads, 0, stream>>>(
      starts, turns, turns + tiles, static_cast<const bf16*>(call.dout),
      static_cast<const bf16*>(call.out), call.lse, static_cast<int>(g.T), static_cast<int>(g.H));
  CUDA_CHECK_LAUNCH();
  return {dq, turns, starts, parts > 0 ? sums : nullptr, turns + tiles};
}

void finish(const AttentionBackward& call, const Sums& sums, cudaStream_t stream) {
  if (!call.dq_sums) return;
  const auto parts = static_cast<int>(call.shape.B * call.shape.T / kRows);
  sum_parts(call.dq_sums, sums.parts, parts, Grad::accumulate, stream);
}

}  // namespace stretto::cuda::dq
