// Beside the operands (hopper_product.cuh) memory has room for one tile, in three strips of 64
// columns. What was before GELU arrives in a strip while a group multiplies; three warps put GELU's
// derivative in its place (a group has no registers left for that, and no time); the group whose
// tile it is multiplies by it, puts the result in its place, and sends that off; then the strip of
// the next tile arrives.
#include "backend/cuda/gelu.cuh"
#include "backend/cuda/gelu_product.h"
#include "backend/cuda/hopper_product.cuh"
#include "backend/cuda/tensor_map.h"

namespace stretto::cuda {
namespace {

using namespace hopper;

constexpr int kStrips = kN / kBoxSide, kStripBytes = 2 * kBoxBytes;
constexpr int kDeriving = 96;  // threads

struct Operands {
  CUtensorMap a, b, pre, out;
  float* parts;  // (tiles of m, n)
  int m, n, k;
};

struct Memory {
  Stages stages;
  char strips[kStrips][kStripBytes];
  float sums[2][4][kN];
  Flow flow;
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

__global__ void __launch_bounds__(kThreads, 1)
    product_kernel([[maybe_unused]] const __grid_constant__ Operands o) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  Memory& memory = aligned<Memory>(raw);
  const int number = threadIdx.x / kGroup, thread = threadIdx.x % kGroup;
  if (threadIdx.x == 0) {
    memory.flow.init();
    for (int strip = 0; strip < kStrips; ++strip) {
      memory.arrived[strip].init(1);
      for (auto& group : memory.derived) group[strip].init(kDeriving);
    }
  }
  begin_cluster();
  const Walk walk(o.m, o.n);
  const int blocks_k = o.k / kK;
  if (number == 2) {
    give_registers<56>();
    constexpr int kOthers = kGroup - kDeriving;
    uint32_t turn = 0;
    for (int i = walk.first; thread >= kOthers && i < walk.count; i += walk.step, ++turn) {
      for (int strip = 0; strip < kStrips; ++strip) {
        memory.arrived[strip].wait(turn & 1);
        derive(memory.strips[strip], thread - kOthers);
        memory.derived[turn & 1][strip].arrive();
      }
    }
    if (thread == 0) {
      fetch_operands<Layout::by_columns>(memory.stages, memory.flow, o.a, o.b, walk, blocks_k);
    }
    __syncwarp();
  } else {
    take_registers<224>();
    if (threadIdx.x == 0 && walk.first < walk.count) {
      for (int strip = 0; strip < kStrips; ++strip) {
        fetch_strip(memory, strip, o.pre, walk[walk.first]);
      }
    }
    uint32_t turn = 0;
    for (int i = walk.first + number * walk.step; i < walk.count; i += 2 * walk.step, ++turn) {
      const Tile tile = walk[i];
      float acc[2][kN / 2];
      multiply_tile<Layout::by_columns>(acc, memory.stages, memory.flow, number, turn, blocks_k);
      const bool more = i + walk.step < walk.count;
      finish(o, memory, number, turn & 1, tile, more, more ? walk[i + walk.step] : tile, acc);
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
  return type == DType::bf16 && frame_fits(gpu, s.rows, s.n, s.k) && has_tensor_maps();
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
  launch_frame(product_kernel, sizeof(Memory), operands, stream);
}

}  // namespace stretto::cuda
