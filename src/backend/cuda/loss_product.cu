#include "backend/cuda/hopper_product.cuh"
#include "backend/cuda/loss_product.h"
#include "backend/cuda/tensor_map.h"

namespace stretto::cuda {
namespace {

using namespace hopper;

constexpr int kBoxes = 6;        // of a tile
constexpr float kMost = 110.0f;  // of two: sums of 2^17 words stay below the largest number

struct Operands {
  CUtensorMap a, b, out;
  const float* target;
  float* parts;  // (tiles of n, m)
  int m, n, k, words;
};

// Room for one tile of results: a group has it until its boxes have left.
struct Memory {
  Stages stages;
  char boxes[kBoxes][kBoxBytes];
  Flow flow;
  Barrier left[2];
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

__global__ void __launch_bounds__(kThreads, 1)
    product_kernel([[maybe_unused]] const __grid_constant__ Operands o) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  Memory& memory = aligned<Memory>(raw);
  const int number = threadIdx.x / kGroup, thread = threadIdx.x % kGroup;
  if (threadIdx.x == 0) {
    memory.flow.init();
    for (Barrier& left : memory.left) left.init(1);
  }
  begin_cluster();
  const Walk walk(o.m, o.n);
  const int blocks_k = o.k / kK;
  if (number == 2) {
    give_registers<24>();
    if (thread == 0) {
      fetch_operands<Layout::by_rows>(memory.stages, memory.flow, o.a, o.b, walk, blocks_k);
    }
    __syncwarp();
  } else {
    take_registers<240>();
    const Group group(memory, number, thread);
    uint32_t turn = 0;
    for (int i = walk.first + number * walk.step; i < walk.count; i += 2 * walk.step, ++turn) {
      const Tile tile = walk[i];
      float acc[2][kN / 2];
      multiply_tile<Layout::by_rows>(acc, memory.stages, memory.flow, number, turn, blocks_k);
      if (number == 1) memory.left[0].wait(turn & 1);
      if (number == 0 && turn > 0) memory.left[1].wait((turn - 1) & 1);
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
  return type == DType::bf16 && frame_fits(gpu, s.rows, s.n, s.k) && has_tensor_maps();
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
  launch_frame(product_kernel, sizeof(Memory), operands, stream);
}

}  // namespace stretto::cuda
