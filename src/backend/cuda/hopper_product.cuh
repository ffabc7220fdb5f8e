// The frame of our own products for Hopper, in bf16: a (m, k) times b, a tile of 128 x 192 at a
// time.
//
// Two groups of four warps take turns: one multiplies while the other finishes its tile, so that
// what finishing costs hides behind the next product. A third group fetches for both. Two blocks
// form a cluster: they take neighbours in m, and each brings half of the b that both need.
#pragma once

#include "backend/cuda/hopper.cuh"

namespace stretto::cuda {

// A group's tile, and the blocks of both operands that shared memory holds, in stages.
constexpr int kM = 128, kN = 192, kK = 64, kStages = 4;
constexpr int kCluster = 2;
constexpr int kThreads = 3 * hopper::kGroup;
constexpr int kTileBytes = kM * kK * 2, kStageBytes = kTileBytes + kN * kK * 2;
// Results come and go in boxes; so does a b whose rows are k.
using hopper::kBoxBytes, hopper::kBoxSide, hopper::kGroup;

struct Tile {
  int row, column;
};

// How b lies in memory: (n, k), or (k, n).
enum class Layout { by_rows, by_columns };

inline bool frame_fits(const cudaDeviceProp& gpu, int64_t m, int64_t n, int64_t k) {
  return gpu.major == 9 && m > 0 && m % (kM * kCluster) == 0 && n > 0 && n % 8 == 0 && k > 0 &&
         k % kK == 0;
}

// A block on every multiprocessor. `bytes`: of shared memory, apart from what aligns it.
template <typename Operands>
void launch_frame(void (*kernel)(Operands), size_t bytes, const Operands& operands,
                  cudaStream_t stream) {
  bytes += hopper::kAlignment - 1;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)));
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(hopper::multiprocessors() / kCluster * kCluster));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, operands));
}

namespace hopper {

using Stages = char[kStages][kStageBytes];

// All groups count the blocks of k that pass, over all tiles: number g lies in stage g % kStages,
// and is its (g / kStages)-th.
struct Flow {
  Barrier full[kStages], empty[kStages];
  Barrier multiplied[2];  // by each group

  // By one thread; begin_cluster() after it.
  __device__ __forceinline__ void init() {
    for (int s = 0; s < kStages; ++s) {
      full[s].init(1);
      empty[s].init(kCluster);
    }
    for (Barrier& group : multiplied) group.init(1);
  }
};

// What thread 0 did to barriers is known to both blocks.
__device__ __forceinline__ void begin_cluster() {
  if (threadIdx.x == 0) publish_barriers();
  __syncthreads();
  synchronize_cluster();
}

// The tiles of this block: number first, first + step, ... below count. Pairs of m tiles walk over
// n together, kPanel at a time: what they read of b stays in the cache.
struct Walk {
  static constexpr int kPanel = 16;
  int tiles_n, pairs_m, first, step, count;

  __device__ __forceinline__ Walk(int m, int n)
      : tiles_n((n + kN - 1) / kN),
        pairs_m(m / (kM * kCluster)),
        first(int(blockIdx.x) / kCluster),
        step(int(gridDim.x) / kCluster),
        count(tiles_n * pairs_m) {}

  __device__ __forceinline__ Tile operator[](int i) const {
    const int whole = kPanel * tiles_n, panel = i / whole, rest = i % whole;
    const int height = min(kPanel, pairs_m - panel * kPanel);
    return {((panel * kPanel + rest % height) * kCluster + int(block_in_cluster())) * kM,
            rest / height * kN};
  }
};

// Both operands of all tiles, by one thread.
template <Layout kLayout>
__device__ __forceinline__ void fetch_operands(Stages& stages, Flow& flow, const CUtensorMap& a,
                                               const CUtensorMap& b, const Walk& walk,
                                               int blocks_k) {
  const int block = int(block_in_cluster());
  uint32_t g = 0;
  for (int i = walk.first; i < walk.count; i += walk.step) {
    const Tile tile = walk[i];
#pragma unroll 1
    for (int k = 0; k < blocks_k; ++k, ++g) {
      const uint32_t s = g % kStages;
      if (g >= kStages) flow.empty[s].wait((g / kStages & 1) ^ 1);
      Barrier* const full = &flow.full[s];
      full->expect(kStageBytes);
      fetch(stages[s], &a, k * kK, tile.row, full);
      char* const to = stages[s] + kTileBytes;
      if constexpr (kLayout == Layout::by_rows) {
        constexpr int kRows = kN / kCluster;
        fetch_for_all<kCluster>(to + block * kRows * 128, &b, k * kK, tile.column + block * kRows,
                                full);
      } else {
        constexpr int kRows = kK / kCluster;  // of k
#pragma unroll
        for (int box = 0; box < kN / kBoxSide; ++box) {
          fetch_for_all<kCluster>(to + box * kBoxBytes + block * kRows * 128, &b,
                                  tile.column + box * kBoxSide, k * kK + block * kRows, full);
        }
      }
    }
  }
}

// The tile that `group` (0 or 1) has in its turn, after the other group's products.
template <Layout kLayout>
__device__ __forceinline__ void multiply_tile(float (&acc)[2][kN / 2], Stages& stages, Flow& flow,
                                              int group, uint32_t turn, int blocks_k) {
  const int thread = int(threadIdx.x) % kGroup;
  const auto release = [&](uint32_t g) {
    if (thread < kCluster) flow.empty[g % kStages].arrive_at(uint32_t(thread));
  };
  uint32_t g = (2 * turn + uint32_t(group)) * uint32_t(blocks_k);
  if (group == 1) flow.multiplied[0].wait(turn & 1);
  if (group == 0 && turn > 0) flow.multiplied[1].wait((turn - 1) & 1);
  for (int k = 0; k < blocks_k; ++k, ++g) {
    flow.full[g % kStages].wait(g / kStages & 1);
    const uint32_t at = shared_address(stages[g % kStages]);
    begin_products();
#pragma unroll
    for (int part = 0; part < kK / 16; ++part) {  // 16 of k: 32 bytes of a row, or 16 rows
      const uint64_t b =
          kLayout == Layout::by_rows
              ? operand(at + kTileBytes) + part * (32 >> 4)
              : operand_by_columns<kBoxBytes>(at + kTileBytes) + part * (16 * 128 >> 4);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        multiply<kLayout == Layout::by_columns>(
            acc[half], operand(at + half * 64 * 128) + part * (32 >> 4), b, k > 0 || part > 0);
      }
    }
    commit_products();
    if (k == 0) continue;
    wait_for_products<1>();
    release(g - 1);
  }
  if (thread == 0) flow.multiplied[group].arrive();
  wait_for_products<0>();
  release(g - 1);
}

}  // namespace hopper

}  // namespace stretto::cuda
