// As in loss_product.cu two groups of four warps take turns, and two blocks of a cluster share b.
// Memory has room for one tile beside the operands, in three strips of 64 columns. What was before
// GELU arrives in a strip while a group multiplies; three warps put GELU's derivative in its place
// (a group has no registers left for that, and no time); the group whose tile it is multiplies by
// it, puts the result in its place, and sends that off; then the strip of the next tile arrives.
#include "backend/cuda/gelu.cuh"
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
// So does a tile: a strip is two boxes.
constexpr int kBoxSide = 64, kBoxBytes = kBoxSide * kBoxSide * 2;
constexpr int kStrips = kN / kBoxSide, kStripBytes = 2 * kBoxBytes;
constexpr int kSharedBytes = kStages * kStageBytes + kStrips * kStripBytes + 8 * kN * 4 + 2048;
constexpr int kPanel = 16;     // pairs of m tiles that walk over n together
constexpr int kDeriving = 96;  // threads

struct Operands {
  CUtensorMap a, b, pre, out;
  float* parts;  // (tiles of m, n)
  int m, n, k;
};

struct Tile {
  int row, column;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
struct Memory {
  char stages[kStages][kStageBytes];
  char strips[kStrips][kStripBytes];
  float sums[2][4][kN];
  Barrier full[kStages], empty[kStages], multiplied[2];
  Barrier arrived[kStrips], derived[2][kStrips];
};

// By one thread.
__device__ __forceinline__ void fetch_strip(Memory& memory, int strip, const CUtensorMap& map,
                                            const Tile& tile) {
  Barrier* const arrived = &memory.arrived[strip];
  arrived->expect(kStripBytes);
  for (int half = 0; half < 2; ++half) {
    fetch(memory.strips[strip] + half * kBoxBytes, &map, tile.column + strip * kBoxSide,
          tile.row + half * kBoxSide, arrived);
  }
}

// By one thread, too.
__device__ __forceinline__ void send_strip(const Memory& memory, int strip, const CUtensorMap& map,
                                           const Tile& tile) {
  for (int half = 0; half < 2; ++half) {
    store(&map, tile.column + strip * kBoxSide, tile.row + half * kBoxSide,
          memory.strips[strip] + half * kBoxBytes);
  }
}

__device__ __forceinline__ float low_half(uint32_t w) { return __uint_as_float(w << 16); }
__device__ __forceinline__ float high_half(uint32_t w) { return __uint_as_float(w & 0xFFFF0000u); }
__device__ __forceinline__ void unpack(float (&x)[8], const uint4& pack) {
  const uint32_t w[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = low_half(w[i]);
    x[2 * i + 1] = high_half(w[i]);
  }
}

// GELU's derivative in the place of what was before it, by kDeriving threads; in stages, since a
// special function takes as long as many sums. Beyond 1e12, whose cube is too large, NaN.
__device__ __forceinline__ void derive(char* strip, int thread) {
  constexpr int kCount = kStripBytes / int(sizeof(uint4));
  uint4* const packs = reinterpret_cast<uint4*>(strip);
  uint4 pack = packs[thread];
#pragma unroll 1
  for (int i = thread; i < kCount; i += kDeriving) {
    float x[8], gate[8];
    unpack(x, pack);
    if (i + kDeriving < kCount) pack = packs[i + kDeriving];
#pragma unroll
    for (int v = 0; v < 8; ++v) gate[v] = power_of_two(gate_exponent(x[v], x[v] * x[v]));
#pragma unroll
    for (int v = 0; v < 8; ++v) gate[v] = reciprocal(1.0f + gate[v]);
#pragma unroll
    for (int v = 0; v < 8; ++v) x[v] = gated_derivative(x[v], x[v] * x[v], gate[v]);
    packs[i] = make_uint4(pack_pair(x[0], x[1], bf16{}), pack_pair(x[2], x[3], bf16{}),
                          pack_pair(x[4], x[5], bf16{}), pack_pair(x[6], x[7], bf16{}));
  }
}

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

// A group's tile, and the way for the next one. A thread's share: of each half (64 rows), rows 16
// warp + lane / 4 and + 8, and of every eight columns two, from lane % 4 * 2.
__device__ __forceinline__ void finish(const Operands& o, Memory& memory, int group,
                                       uint32_t parity, const Tile& tile, bool more,
                                       const Tile& next, const float (&acc)[2][kN / 2]) {
  const int thread = int(threadIdx.x) % kGroup, warp = thread / 32, lane = thread % 32;
  float(*const sums)[kN] = memory.sums[group];
  const uint32_t row = uint32_t((warp * 16 + lane % 16) * 128);
  synchronize_group<kGroup>(group + 1);  // the sums of the last tile have been read
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    memory.derived[group][strip].wait(parity);
    const uint32_t box = shared_address(memory.strips[strip]) + row;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      // Columns 8 i to 8 i + 15 of both halves, as words of eight of the warp's rows, the next
      // eight rows, and both of the next eight columns.
      const uint32_t at = box + uint32_t(((lane / 16) ^ (lane % 8) ^ i) << 4);
      float total[4] = {};  // of this thread's columns of the first eight, and of the second
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t w[4];
        load_matrices(w, at + half * kBoxBytes);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float* const two = &acc[half][strip * 32 + (i + j / 2) * 4 + j % 2 * 2];
          const float low = two[0] * low_half(w[j]), high = two[1] * high_half(w[j]);
          total[j / 2 * 2] += low;
          total[j / 2 * 2 + 1] += high;
          w[j] = pack_pair(low, high, bf16{});
        }
        store_matrices(at + half * kBoxBytes, w);
      }
      const int column = (i + lane / 16) * 8 + lane % 4 * 2 + lane / 8 % 2;
      sums[warp][strip * kBoxSide + column] = sum_over_rows(total, lane);
    }
    order_before_copies();
    synchronize_group<kGroup>(group + 1);
    if (thread != 0) continue;
    send_strip(memory, strip, o.out, tile);
    if (strip == 0 || !more) continue;
    wait_for_stores<2>();  // the strip before this one has left
    fetch_strip(memory, strip - 1, o.pre, next);
  }
  if (thread == 0) {
    wait_for_stores<0>();
    if (more) fetch_strip(memory, kStrips - 1, o.pre, next);
  }
  if (o.parts == nullptr) return;
  for (int c = thread; c < kN && tile.column + c < o.n; c += kGroup) {
    o.parts[int64_t(tile.row / kM) * o.n + tile.column + c] =
        (sums[0][c] + sums[1][c]) + (sums[2][c] + sums[3][c]);
  }
}
#endif

__global__ void __launch_bounds__(3 * kGroup, 1)
    product_kernel([[maybe_unused]] const __grid_constant__ Operands o) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static_assert(sizeof(Memory) + 1023 <= kSharedBytes);
  extern __shared__ char raw[];
  // An offset, so that the compiler sees shared memory.
  Memory& memory = *reinterpret_cast<Memory*>(raw + (-shared_address(raw) & 1023));
  const int number = threadIdx.x / kGroup, thread = threadIdx.x % kGroup;
  const int tiles_n = (o.n + kN - 1) / kN, pairs_m = o.m / (kM * kCluster);
  const int blocks_k = o.k / kK;
  const uint32_t block = block_in_cluster();
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      memory.full[s].init(1);
      memory.empty[s].init(kCluster);
    }
    for (Barrier& multiplied : memory.multiplied) multiplied.init(1);
    for (int strip = 0; strip < kStrips; ++strip) {
      memory.arrived[strip].init(1);
      for (auto& group : memory.derived) group[strip].init(kDeriving);
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
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    uint32_t g = 0, turn = 0;
    for (int i = first; thread >= kGroup - kDeriving && i < count; i += step, ++turn) {
      for (int strip = 0; strip < kStrips; ++strip) {
        memory.arrived[strip].wait(turn & 1);
        derive(memory.strips[strip], thread - (kGroup - kDeriving));
        memory.derived[turn & 1][strip].arrive();
      }
    }
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
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    const auto release = [&](uint32_t g) {
      if (thread < kCluster) memory.empty[g % kStages].arrive_at(uint32_t(thread));
    };
    uint32_t turns = 0;
    if (threadIdx.x == 0 && first < count) {
      for (int strip = 0; strip < kStrips; ++strip) {
        fetch_strip(memory, strip, o.pre, tile_of(first));
      }
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
      const bool more = i + step < count;
      finish(o, memory, number, turns & 1, tile, more, more ? tile_of(i + step) : tile, acc);
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

void gelu_product(void* dpre, float* parts, const void* dout, const void* weight, const void* pre,
                  const GeluShape& s, cudaStream_t stream) {
  const Operands operands{tensor_map(dout, s.rows, s.k, kM),
                          tensor_map(weight, s.k, s.n, kK / kCluster),
                          tensor_map(pre, s.rows, s.n, kBoxSide),
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
