// Two groups of four warps take turns: one multiplies while the other finishes its tile, so that
// what finishing costs hides behind the next product. A third group fetches for both. Two blocks
// form a cluster: they take neighbours in m, and each brings half of the b that both need.
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/loss_product.h"
#include "backend/cuda/tensor_map.h"

namespace stretto::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
using namespace hopper;
#endif

// A group's tile, and the blocks of both operands that shared memory holds, in stages.
constexpr int kM = 128, kN = 192, kK = 64, kStages = 4;
constexpr int kCluster = 2;
constexpr int kGroup = 128;  // threads
constexpr int kTileBytes = kM * kK * 2, kStageBytes = kTileBytes + kN * kK * 2;
// Results leave in boxes of 64 x 64, six of a tile. Memory has room for one tile: a group has it
// until its boxes have left.
constexpr int kBoxes = 6, kBoxSide = 64, kBoxBytes = kBoxSide * kBoxSide * 2;
constexpr int kSharedBytes = kStages * kStageBytes + kBoxes * kBoxBytes + 2048;
// Pairs of m tiles that walk over n together: what they read of b stays in the cache.
constexpr int kPanel = 16;
constexpr float kMost = 110.0f;  // of two: sums of 2^17 words stay below the largest number

struct Operands {
  CUtensorMap a, b, out;
  const float* target;
  float* parts;  // (tiles of n, m)
  int m, n, k, words;
};

struct Tile {
  int row, column;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
struct Memory {
  char stages[kStages][kStageBytes];
  char boxes[kBoxes][kBoxBytes];
  Barrier full[kStages], empty[kStages], multiplied[2], left[2];
};

// A group of four warps, and its part of the memory. A thread's share of a tile: of each half (64
// rows), rows 16 warp + lane / 4 and + 8, and of every eight columns two, from lane % 4 * 2. Box b
// has columns from b / 2 * 64 of half b % 2.
struct Group {
  int number, thread, warp, lane;
  char (*boxes)[kBoxBytes];

  __device__ Group(Memory& memory, int number, int thread)
      : number(number), thread(thread), warp(thread / 32), lane(thread % 32), boxes(memory.boxes) {}

  // For store_matrices: columns 8 i to 8 i + 15 of a box, as words of eight of the warp's rows, the
  // next eight rows, and both of the next eight columns.
  __device__ __forceinline__ uint32_t matrices(int box, int i) const {
    return shared_address(boxes[box]) + uint32_t((warp * 16 + lane % 16) * 128) +
           uint32_t(((lane / 16) ^ (lane % 8) ^ i) << 4);
  }
  // What all wrote into a box goes out.
  __device__ __forceinline__ void send(int box, const CUtensorMap& map, const Tile& tile) const {
    order_before_copies();
    synchronize_group<kGroup>(number + 1);
    if (thread == 0) {
      store(&map, tile.column + box / 2 * 64, tile.row + box % 2 * 64, boxes[box]);
    }
  }
};

// Exponentials of a tile, and their sums over its columns.
__device__ __forceinline__ void finish(const Operands& o, const Group& group, const Tile& tile,
                                       const float (&acc)[2][kN / 2]) {
  const bool edge = tile.column + kN > o.words;
  const int row = tile.row + group.warp * 16 + group.lane / 4;
  float shift[4], sums[4] = {};  // of rows, + 8, + 64, + 72
#pragma unroll
  for (int r = 0; r < 4; ++r) shift[r] = -kLog2e * __ldg(o.target + row + r / 2 * 64 + r % 2 * 8);
#pragma unroll
  for (int box = 0; box < kBoxes; ++box) {
    const float* const x = &acc[box % 2][box / 2 * 32];
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      uint32_t w[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* const two = x + (i + j / 2) * 4 + j % 2 * 2;
        const int r = box % 2 * 2 + j % 2;
        const int column = tile.column + box / 2 * 64 + (i + j / 2) * 8 + group.lane % 4 * 2;
        float e[2];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          e[c] = power_of_two(at_most(fmaf(two[c], kLog2e, shift[r]), kMost));
          if (edge && column + c >= o.words) e[c] = 0.0f;
          sums[r] += e[c];
        }
        w[j] = pack_pair(e[0], e[1], bf16{});
      }
      store_matrices(group.matrices(box, i), w);
    }
    group.send(box, o.out, tile);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    sums[r] = quad_sum(sums[r]);
    if (group.lane % 4 == 0) {
      o.parts[int64_t(tile.column / kN) * o.m + row + r / 2 * 64 + r % 2 * 8] = sums[r];
    }
  }
}
#endif

// All groups count the blocks of k that pass, over all tiles: number g lies in stage g % kStages,
// and is its (g / kStages)-th.
__global__ void __launch_bounds__(3 * kGroup, 1)
    product_kernel([[maybe_unused]] const __grid_constant__ Operands o) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(sizeof(Memory) + 1023 <= kSharedBytes);
  extern __shared__ char raw[];
  Memory& memory =
      *reinterpret_cast<Memory*>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~uintptr_t{1023});
  const int number = threadIdx.x / kGroup, thread = threadIdx.x % kGroup;
  const int tiles_n = (o.n + kN - 1) / kN, pairs_m = o.m / (kM * kCluster);
  const int blocks_k = o.k / kK;
  const uint32_t block = block_in_cluster();
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      memory.full[s].init(1);
      memory.empty[s].init(kCluster);
    }
    for (int g = 0; g < 2; ++g) {
      memory.multiplied[g].init(1);
      memory.left[g].init(1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  synchronize_cluster();
  const int first = int(blockIdx.x) / kCluster, step = int(gridDim.x) / kCluster;
  const int count = tiles_n * pairs_m;
  const auto tile_of = [&](int i) {
    const int whole = kPanel * tiles_n, panel = i / whole, rest = i % whole;
    const int height = min(kPanel, pairs_m - panel * kPanel);
    return Tile{((panel * kPanel + rest % height) * kCluster + int(block)) * kM,
                rest / height * kN};
  };

  if (number == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    uint32_t g = 0;
    for (int i = first; thread == 0 && i < count; i += step) {
      const Tile tile = tile_of(i);
#pragma unroll 1
      for (int k = 0; k < blocks_k; ++k, ++g) {
        const uint32_t s = g % kStages;
        if (g >= kStages) memory.empty[s].wait((g / kStages & 1) ^ 1);
        Barrier* const full = &memory.full[s];
        full->expect(kStageBytes);
        char* const to = memory.stages[s];
        fetch(to, &o.a, k * kK, tile.row, full);
        constexpr int kRows = kN / kCluster;
        fetch_for_all<kCluster>(to + kTileBytes + int(block) * kRows * 128, &o.b, k * kK,
                                tile.column + int(block) * kRows, full);
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const Group group(memory, number, thread);
    const auto release = [&](uint32_t g) {
      if (thread < kCluster) memory.empty[g % kStages].arrive_at(uint32_t(thread));
    };
    uint32_t turns = 0;
    for (int i = first + number * step; i < count; i += 2 * step, ++turns) {
      const Tile tile = tile_of(i);
      float acc[2][kN / 2];
      uint32_t g = (2 * turns + uint32_t(number)) * uint32_t(blocks_k);
      // The other group's products first.
      if (number == 1) memory.multiplied[0].wait(turns & 1);
      if (number == 0 && turns > 0) memory.multiplied[1].wait((turns - 1) & 1);
      for (int k = 0; k < blocks_k; ++k, ++g) {
        memory.full[g % kStages].wait(g / kStages & 1);
        const uint32_t at = shared_address(memory.stages[g % kStages]);
        begin_products();
#pragma unroll
        for (int part = 0; part < kK / 16; ++part) {  // 16 of k: 32 bytes of a row
          const uint64_t b = operand(at + kTileBytes) + part * (32 >> 4);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            multiply(acc[half], operand(at + half * 64 * 128) + part * (32 >> 4), b,
                     k > 0 || part > 0);
          }
        }
        commit_products();
        if (k == 0) continue;
        wait_for_products<1>();
        release(g - 1);
      }
      if (thread == 0) memory.multiplied[number].arrive();
      wait_for_products<0>();
      release(g - 1);
      if (number == 1) memory.left[0].wait(turns & 1);
      if (number == 0 && turns > 0) memory.left[1].wait((turns - 1) & 1);
      finish(o, group, tile, acc);
      if (thread == 0) {
        wait_for_stores<0>();
        memory.left[number].arrive();
      }
    }
  }
  synchronize_cluster();
#else
  __trap();
#endif
}

}  // namespace

// The kernel is empty in code for other GPUs, plain sm_90 among them.
bool loss_product_supports([[maybe_unused]] const cudaDeviceProp& gpu, [[maybe_unused]] DType type,
                           [[maybe_unused]] const LossShape& s) {
#if defined(STRETTO_SM90A)
  return type == DType::bf16 && gpu.major == 9 && s.rows > 0 && s.rows % (kM * kCluster) == 0 &&
         s.n % 8 == 0 && s.k > 0 && s.k % kK == 0 && has_tensor_maps();
#else
  return false;
#endif
}

int64_t loss_product_tiles(const LossShape& s) { return (s.n + kN - 1) / kN; }

void loss_product(void* logits, float* parts, const LossRows& rows, const void* inp,
                  const void* weight, const LossShape& s, cudaStream_t stream) {
  const Operands operands{tensor_map(inp, s.rows, s.k, kM),
                          tensor_map(weight, s.n, s.k, kN / kCluster),
                          tensor_map(logits, s.rows, s.n, kBoxSide),
                          rows.target,
                          parts,
                          static_cast<int>(s.rows),
                          static_cast<int>(s.n),
                          static_cast<int>(s.k),
                          rows.words};
  int device = 0, multiprocessors = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = product_kernel;
  CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(multiprocessors / kCluster * kCluster));
  config.blockDim = dim3(3 * kGroup);
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, operands));
}

}  // namespace stretto::cuda
