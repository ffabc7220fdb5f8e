// What the backward passes for heads of 64 and of 128 have in common.
#pragma once

#include <algorithm>

#include "backend/cuda/attention_dq.h"
#include "backend/cuda/hopper_box.cuh"
#include "backend/cuda/tensor_map.h"

namespace stretto::cuda {

constexpr int kKeys = 128, kQueries = dq::kRows;
using hopper::kBoxBytes, hopper::kGroup, hopper::kWarps;

struct BackwardOperands {
  CUtensorMap qkv, keys, dout, dqkv, starts;  // keys: qkv in boxes of 128 rows
  dq::Sums sums;
  int T, heads, items, together;
  float scale;
};

// Keys [128 tile, 128 tile + 128) of a head of a sequence, which walk over the queries that see
// them: from those on the diagonal to the last.
//
// Late keys come first, and their shares of dq too, so that sums always have the same order. Hardly
// anyone waits for it: keys that begin at the same time are never at the same queries, and those of
// a head begin one after the other, since those of other heads come in between. Who waits has taken
// his item later than those he waits for, so that one can always go on.
struct Item {
  int row, head, tile, queries;  // row: the sequence's first; queries: blocks of them
  int64_t statistics;            // of the sequence and head

  __device__ __forceinline__ Item(const BackwardOperands& o, int number) {
    const int tiles = o.T / kKeys;
    const int first = number / (o.together * tiles) * o.together;  // head of those together
    const int heads = min(o.together, o.items / tiles - first);
    const int within = number - first * tiles, which = first + within % heads;
    tile = tiles - 1 - within / heads;
    head = which % o.heads;
    row = which / o.heads * o.T;
    queries = (o.T - tile * kKeys) / kQueries;
    statistics = int64_t(which) * o.T;
  }
};

// Of 64 keys and 64 queries, transposed. `less` of the logarithm of a query's sum (dq::Sums); p may
// be scores.
__device__ __forceinline__ void make_probabilities(float (&p)[32], const float (&scores)[32],
                                                   const float2 (&less)[8], float scale) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    p[i] =
        power_of_two(fmaf(scores[i], scale * kLog2e, i % 2 == 0 ? less[i / 4].x : less[i / 4].y));
  }
}
// The gradient of scores from the probabilities and from dp, less delta; it may take the place of
// the probabilities.
__device__ __forceinline__ void make_dscores(uint32_t (&to)[4][4], const uint32_t (&p)[4][4],
                                             const float (&dp)[32]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const uint32_t w = p[i / 4][i % 4];
    to[i / 4][i % 4] = pack_pair(dp[2 * i] * __uint_as_float(w << 16),
                                 dp[2 * i + 1] * __uint_as_float(w & 0xFFFF0000u), bf16{});
  }
}

// 64 x 64 or 64 x 128 sums of a group, times `factor`, to dqkv by way of one box, or of two that
// lie two apart.
template <int kCount>
__device__ __forceinline__ void send_result(const BackwardOperands& o, const hopper::Place& place,
                                            char* boxes, const float (&d)[kCount], float factor,
                                            int x, int y, int barrier) {
#pragma unroll
  for (int box = 0; box < kCount / 32; ++box) {
    float scaled[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) scaled[i] = d[box * 32 + i] * factor;
    uint32_t words[4][4];
    hopper::pack(words, scaled);
    place.store_box(boxes + box * 2 * kBoxBytes, words);
  }
  hopper::order_before_copies();
  hopper::synchronize_group<kGroup>(barrier);
  if (threadIdx.x % kGroup != 0) return;
#pragma unroll
  for (int box = 0; box < kCount / 32; ++box) {
    hopper::store(&o.dqkv, x + box * 64, y, boxes + box * 2 * kBoxBytes);
  }
}

// Heads whose backward passes run at the same time: as many as have their operands and the sums of
// dq in half of the L2 cache.
inline int heads_together(const AttentionGeometry& g) {
  int device = 0, bytes = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device));
  const int64_t head = g.T * g.D * (4 * int64_t{sizeof(bf16)} + int64_t{sizeof(float)});
  return static_cast<int>(std::clamp<int64_t>(int64_t{bytes} / 2 / head, 1, g.B * g.H));
}

// `starts`: how many of a row of sums.starts the kernel fetches at once.
inline BackwardOperands operands_of(const AttentionBackward& call, const dq::Sums& sums,
                                    int starts) {
  const AttentionGeometry& g = call.shape;
  const int64_t rows = g.B * g.T, width = g.H * g.D;
  return {tensor_map(call.qkv, rows, 3 * width, 64),
          tensor_map(call.qkv, rows, 3 * width, kKeys),
          tensor_map(call.dout, rows, width, 64),
          tensor_map(call.dqkv, rows, 3 * width, 64),
          row_map(sums.starts, rows * g.H / kQueries, 2 * kQueries, starts),
          sums,
          static_cast<int>(g.T),
          static_cast<int>(g.H),
          static_cast<int>(rows * g.H / kKeys),
          heads_together(g),
          attention_scale(g)};
}

}  // namespace stretto::cuda
