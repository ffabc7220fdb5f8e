// As in loss_product.cu two groups of four warps take turns, a third fetches, and two blocks of a
// cluster share b. Each group has room for a tile of its own: GELU's derivative arrives there
// while the group multiplies, gives way to the result, and that leaves.
#include "backend/cuda/gelu_product.h"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/tensor_map.h"

namespace stretto::cuda {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
using namespace hopper;
#endif

constexpr int kM = 128, kN = 192, kK = 64, kStages = 4;
constexpr int kCluster = 2;
constexpr int kGroup = 128;  // threads
// b lies in boxes of 64 columns, 64 rows (of k) each.
constexpr int kTileBytes = kM * kK * 2, kStageBytes = kTileBytes + kN * kK * 2;
constexpr int kBoxes = 6, kBoxSide = 64, kBoxBytes = kBoxSide * kBoxSide * 2;
constexpr int kSharedBytes = kStages * kStageBytes + kBoxes * kBoxBytes + 8 * kN * 4 + 2048;
constexpr int kPanel = 16;  // pairs of m tiles that walk over n together

struct Operands {
  CUtensorMap a, b, derivative, out;
  float* parts;  // (tiles of m, n)
  int m, n, k;
};

struct Tile {
  int row, column;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
struct Memory {
  char stages[kStages][kStageBytes];
  char boxes[kBoxes][kBoxBytes];
  float sums[2][4][kN];
  Barrier full[kStages], empty[kStages], multiplied[2], derivative[2];
};

// A group of four warps. A thread's share of a tile: of each half (64 rows), rows 16 warp + lane /
// 4 and + 8, and of every eight columns two, from lane % 4 * 2. Box b has columns from b / 2 * 64
// of half b % 2.
struct Group {
  int number, thread, warp, lane;
  char (*boxes)[kBoxBytes];
  float (*sums)[kN];

  __device__ Group(Memory& memory, int number, int thread)
      : number(number),
        thread(thread),
        warp(thread / 32),
        lane(thread % 32),
        boxes(memory.boxes),
        sums(memory.sums[number]) {}

  // Columns 8 i to 8 i + 15 of a box, as words of eight of the warp's rows, the next eight rows,
  // and both of the next eight columns.
  __device__ __forceinline__ uint32_t matrices(int box, int i) const {
    return shared_address(boxes[box]) + uint32_t((warp * 16 + lane % 16) * 128) +
           uint32_t(((lane / 16) ^ (lane % 8) ^ i) << 4);
  }
  // By one thread.
  __device__ __forceinline__ void fetch_tile(const CUtensorMap& map, const Tile& tile,
                                             Barrier* barrier) const {
    barrier->expect(kBoxes * kBoxBytes);
    for (int box = 0; box < kBoxes; ++box) {
      fetch(boxes[box], &map, tile.column + box / 2 * 64, tile.row + box % 2 * 64, barrier);
    }
  }
  // What all wrote into the boxes of 64 columns goes out.
  __device__ __forceinline__ void send(int block, const CUtensorMap& map, const Tile& tile) const {
    order_before_copies();
    synchronize_group<kGroup>(number + 1);
    if (thread != 0) return;
    for (int half = 0; half < 2; ++half) {
      store(&map, tile.column + block * 64, tile.row + half * 64, boxes[block * 2 + half]);
    }
  }
};

__device__ __forceinline__ float low_half(uint32_t w) { return __uint_as_float(w << 16); }
__device__ __forceinline__ float high_half(uint32_t w) { return __uint_as_float(w & 0xFFFF0000u); }

// x over the eight lanes that share lane % 4: two lanes have the sum of x[lane / 8].
__device__ __forceinline__ float sum_over_rows(const float (&x)[4], int lane) {
  const bool second = lane & 16, odd = lane & 8;
  float y[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float sent = second ? x[i] : x[i + 2], kept = second ? x[i + 2] : x[i];
    y[i] = kept + __shfl_xor_sync(0xffffffffu, sent, 16);
  }
  const float sent = odd ? y[0] : y[1], kept = odd ? y[1] : y[0];
  const float sum = kept + __shfl_xor_sync(0xffffffffu, sent, 8);
  return sum + __shfl_xor_sync(0xffffffffu, sum, 4);
}

__device__ __forceinline__ void finish(const Operands& o, const Group& group, const Tile& tile,
                                       const float (&acc)[2][kN / 2]) {
#pragma unroll
  for (int block = 0; block < kN / 64; ++block) {
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      float sums[4] = {};  // of this thread's columns of the first eight, and of the second
      const uint32_t at[2] = {group.matrices(block * 2, i), group.matrices(block * 2 + 1, i)};
      uint32_t w[2][4];
      load_matrices(w[0], at[0]);
      load_matrices(w[1], at[1]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float* const two = &acc[half][block * 32 + (i + j / 2) * 4 + j % 2 * 2];
          const float low = two[0] * low_half(w[half][j]);
          const float high = two[1] * high_half(w[half][j]);
          sums[j / 2 * 2] += low;
          sums[j / 2 * 2 + 1] += high;
          w[half][j] = pack_pair(low, high, bf16{});
        }
      }
      store_matrices(at[0], w[0]);
      store_matrices(at[1], w[1]);
      const int lane = group.lane, column = (i + lane / 16) * 8 + lane % 4 * 2 + lane / 8 % 2;
      group.sums[group.warp][block * 64 + column] = sum_over_rows(sums, lane);
    }
    group.send(block, o.out, tile);
  }
  if (o.parts == nullptr) return;
  synchronize_group<kGroup>(group.number + 1);
  for (int c = group.thread; c < kN && tile.column + c < o.n; c += kGroup) {
    o.parts[int64_t(tile.row / kM) * o.n + tile.column + c] =
        (group.sums[0][c] + group.sums[1][c]) + (group.sums[2][c] + group.sums[3][c]);
  }
}
#endif

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
      memory.derivative[g].init(1);
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
        constexpr int kRows = kK / kCluster;  // of k, that this block brings for both
#pragma unroll
        for (int box = 0; box < kN / 64; ++box) {
          fetch_for_all<kCluster>(to + kTileBytes + box * kBoxBytes + int(block) * kRows * 128,
                                  &o.b, tile.column + box * 64, k * kK + int(block) * kRows, full);
        }
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
    if (threadIdx.x == 0 && first < count) {
      group.fetch_tile(o.derivative, tile_of(first), &memory.derivative[0]);
    }
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
        for (int part = 0; part < kK / 16;
             ++part) {  // 16 of k: 32 bytes of a row of a, 16 rows of b
          const uint64_t b =
              operand_by_columns<kBoxBytes>(at + kTileBytes) + part * (16 * 128 >> 4);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            multiply<true>(acc[half], operand(at + half * 64 * 128) + part * (32 >> 4), b,
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
      memory.derivative[number].wait(turns & 1);
      finish(o, group, tile, acc);
      if (thread == 0) {
        wait_for_stores<0>();
        if (i + step < count) {
          group.fetch_tile(o.derivative, tile_of(i + step), &memory.derivative[1 - number]);
        }
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
bool gelu_product_supports([[maybe_unused]] const cudaDeviceProp& gpu, [[maybe_unused]] DType type,
                           [[maybe_unused]] const GeluShape& s) {
#if defined(STRETTO_SM90A)
  return type == DType::bf16 && gpu.major == 9 && s.rows > 0 && s.rows % (kM * kCluster) == 0 &&
         s.n > 0 && s.n % 8 == 0 && s.k > 0 && s.k % kK == 0 && has_tensor_maps();
#else
  return false;
#endif
}

int gelu_product_parts(const GeluShape& s) { return static_cast<int>(s.rows / kM); }

void gelu_product(void* dpre, float* parts, const void* dout, const void* weight,
                  const void* derivative, const GeluShape& s, cudaStream_t stream) {
  const Operands operands{tensor_map(dout, s.rows, s.k, kM),
                          tensor_map(weight, s.k, s.n, kK / kCluster),
                          tensor_map(derivative, s.rows, s.n, kBoxSide),
                          tensor_map(dpre, s.rows, s.n, kBoxSide),
                          parts,
                          static_cast<int>(s.rows),
                          static_cast<int>(s.n),
                          static_cast<int>(s.k)};
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
