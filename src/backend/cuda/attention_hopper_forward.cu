// The forward pass of causal attention: a block takes 128 queries of a head at a time and walks
// over the keys that they see, 128 at a time, from the diagonal back. Three groups of four warps:
// one fetches; two have 64 queries each, with their scores and sums in registers. While a group
// takes exponentials, its last product and those of the other group run.
#include <algorithm>

#include "backend/cuda/attention_hopper.h"
#include "backend/cuda/hopper_box.cuh"
#include "backend/cuda/lanes.h"
#include "backend/cuda/tensor_map.h"

namespace stretto::cuda {
namespace {

using namespace hopper;

constexpr int kThreads = 3 * kGroup;
constexpr int kRows = 128;  // queries of an item, keys of a pass

struct Operands {
  CUtensorMap qkv, out;  // qkv: in boxes of 128 rows
  float* lse;
  int* next;
  int T, heads, items;
  float scale;
};

template <int kD>
struct Memory {
  static constexpr int kBoxes = kD / 64, kStages = kD == 64 ? 4 : 2;
  char queries[2][kBoxes][2][kBoxBytes];  // of two items: columns, halves of rows
  char keys[kStages][kBoxes][2][kBoxBytes], values[kStages][kBoxes][2][kBoxBytes];
  char results[kBoxes][2][kBoxBytes];
  int item[2];
  Barrier item_full[2], item_empty[2];
  Barrier keys_full[kStages], keys_empty[kStages], values_full[kStages], values_empty[kStages];
};

// Queries [128 tile, 128 tile + 128) of a head of a sequence. Late queries, which see most keys,
// come first.
struct Item {
  int row, head, tile;  // row: the sequence's first
  int64_t statistics;   // of the sequence and head

  __device__ __forceinline__ Item(const Operands& o, int number) {
    const int tiles = o.T / kRows, which = number / tiles;
    tile = tiles - 1 - number % tiles;
    head = which % o.heads;
    row = which / o.heads * o.T;
    statistics = int64_t(which) * o.T;
  }
};

template <int kD>
__device__ __forceinline__ void fetch_columns(char (&to)[kD / 64][2][kBoxBytes], const Operands& o,
                                              int x, int y, Barrier* barrier) {
#pragma unroll
  for (int box = 0; box < kD / 64; ++box) fetch(to[box], &o.qkv, x + box * 64, y, barrier);
}

template <int kD>
__device__ __forceinline__ void fetch_all(const Operands& o, Memory<kD>& m) {
  constexpr int kBytes = kRows * kD * 2;
  Turn<2> q;
  Turn<Memory<kD>::kStages> kv;
  const int width = o.heads * kD;
  int number = atomicAdd(o.next, 1);
  for (;; ++q.n) {
    const int slot = q.place();
    if (q.n >= 2) m.item_empty[slot].wait(q.parity() ^ 1);
    m.item[slot] = number < o.items ? number : -1;
    if (number >= o.items) return m.item_full[slot].arrive();
    const Item item(o, number);
    const int x = item.head * kD;
    int y = item.row + item.tile * kRows;
    m.item_full[slot].expect(kBytes);
    fetch_columns<kD>(m.queries[slot], o, x, y, &m.item_full[slot]);
#pragma unroll 1
    for (int tile = item.tile; tile >= 0; --tile, ++kv.n, y -= kRows) {
      if (tile == 0) number = atomicAdd(o.next, 1);  // not before
      const int s = kv.place();
      const bool again = kv.n >= Memory<kD>::kStages;
      if (again) m.keys_empty[s].wait(kv.parity() ^ 1);
      m.keys_full[s].expect(kBytes);
      fetch_columns<kD>(m.keys[s], o, width + x, y, &m.keys_full[s]);
      if (again) m.values_empty[s].wait(kv.parity() ^ 1);
      m.values_full[s].expect(kBytes);
      fetch_columns<kD>(m.values[s], o, 2 * width + x, y, &m.values_full[s]);
    }
  }
}

// What a group of 64 queries has in registers; a thread has two rows of each.
template <int kD>
struct Share {
  float scores[64], sums[kD / 2];
  uint32_t p[8][4];
  float most[2], total[2];
};

template <int kD>
__device__ __forceinline__ void make_scores(Share<kD>& share, uint32_t queries, uint32_t keys) {
  begin_products();
#pragma unroll
  for (int i = 0; i < kD / 16; ++i) {
    const uint32_t step = i / 4 * 2 * kBox + i % 4 * kAlong;
    multiply_long_boxes(share.scores, queries + step, keys + step, i > 0);
  }
  commit_products();
}
template <int kD>
__device__ __forceinline__ void add_values(Share<kD>& share, uint32_t values, bool add) {
  begin_products();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if constexpr (kD == 64) {
      multiply_box<true>(share.sums, share.p[i], values + i * kAcross, add || i > 0);
    } else {  // the second box of columns is where the operand says
      multiply_two_boxes(share.sums, share.p[i], values + ((2 * kBox - 1) << 16) + i * kAcross,
                         add || i > 0);
    }
  }
  commit_products();
}

// Scores become probabilities before they are divided by their sum; what was made with another
// maximum has to be multiplied by `factor`.
template <int kD>
__device__ __forceinline__ void take_exponentials(Share<kD>& share, float scale,
                                                  float (&factor)[2]) {
  float most[2] = {share.most[0], share.most[1]};
#pragma unroll
  for (int i = 0; i < 64; ++i) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], share.scores[i]);
  float less[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 1));
    most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 2));
    factor[r] = power_of_two((share.most[r] - most[r]) * scale);
    share.most[r] = most[r];
    less[r] = -most[r] * scale;
    share.total[r] *= factor[r];
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    share.scores[i] = power_of_two(fmaf(share.scores[i], scale, less[i / 2 % 2]));
    share.total[i / 2 % 2] += share.scores[i];
  }
}
template <int kD>
__device__ __forceinline__ void round_probabilities(Share<kD>& share) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    share.p[i / 4][i % 4] = pack_pair(share.scores[2 * i], share.scores[2 * i + 1], bf16{});
  }
}

// Nothing is in flight when it begins or ends.
template <int kD>
__device__ __forceinline__ void visit(Memory<kD>& m, Share<kD>& share, const Place& place,
                                      float scale, uint32_t queries, Turn<Memory<kD>::kStages> kv,
                                      bool first) {
  const Turn<Memory<kD>::kStages> before{kv.n - 1};  // the keys whose probabilities are there
  m.keys_full[kv.place()].wait(kv.parity());
  m.values_full[before.place()].wait(before.parity());
  make_scores(share, queries, uniform(box_operand(m.keys[kv.place()][0][0])));
  add_values(share, uniform(box_operand(m.values[before.place()][0][0])), !first);
  wait_for_products<1>();
  settle(share.scores);
  place.arrive(m.keys_empty[kv.place()]);
  float factor[2];
  take_exponentials(share, scale, factor);
  // Known already: a branch, over which the compiler does not move the exponentials.
  m.values_full[before.place()].wait(before.parity());
  wait_for_products<0>();
  settle(share.sums);
  place.arrive(m.values_empty[before.place()]);
#pragma unroll
  for (int i = 0; i < kD / 2; ++i) share.sums[i] *= factor[i / 2 % 2];
  round_probabilities(share);
}

template <int kD>
__device__ __forceinline__ void take_queries(const Operands& o, Memory<kD>& m, int half) {
  const Place place;
  const float scale = o.scale * kLog2e;
  Turn<2> q;
  Turn<Memory<kD>::kStages> kv;
  for (;; ++q.n) {
    const int slot = q.place();
    m.item_full[slot].wait(q.parity());
    const int number = int(uniform(uint32_t(m.item[slot])));
    if (number < 0) break;
    const Item item(o, number);
    Share<kD> share;
    const uint32_t queries = uniform(box_operand(m.queries[slot][0][half]));
    m.keys_full[kv.place()].wait(kv.parity());
    make_scores(share, queries, uniform(box_operand(m.keys[kv.place()][0][0])));
    wait_for_products<0>();
    settle(share.scores);
    place.arrive(m.keys_empty[kv.place()]);
#pragma unroll
    for (int i = 0; i < 64; ++i) {  // on the diagonal
      const int key = place.column + i / 4 * 8 + i % 2,
                query = half * 64 + place.row + i / 2 % 2 * 8;
      if (key > query) share.scores[i] = -INFINITY;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      share.most[r] = -INFINITY;
      share.total[r] = 0;
    }
    float none[2];
    take_exponentials(share, scale, none);
    round_probabilities(share);
    ++kv.n;
#pragma unroll 1
    for (int tile = item.tile - 1; tile >= 0; --tile, ++kv.n) {
      visit(m, share, place, scale, queries, kv, tile == item.tile - 1);
    }
    const Turn<Memory<kD>::kStages> before{kv.n - 1};
    m.values_full[before.place()].wait(before.parity());
    add_values(share, uniform(box_operand(m.values[before.place()][0][0])), item.tile > 0);
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float total = share.total[r];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      inverse[r] = 1 / total;
      if (place.column == 0) {
        o.lse[item.statistics + item.tile * kRows + half * 64 + place.row + 8 * r] =
            share.most[r] * o.scale + logf(total);
      }
    }
    if (threadIdx.x % kGroup == 0) wait_for_stores<0>();
    synchronize_group<kGroup>(half + 1);  // there is room for results
    wait_for_products<0>();
    settle(share.sums);
    m.item_empty[slot].arrive();
    place.arrive(m.values_empty[before.place()]);
#pragma unroll
    for (int box = 0; box < kD / 64; ++box) {
      float scaled[32];
#pragma unroll
      for (int i = 0; i < 32; ++i) scaled[i] = share.sums[box * 32 + i] * inverse[i / 2 % 2];
      uint32_t words[4][4];
      pack(words, scaled);
      place.store_box(m.results[box][half], words);
    }
    order_before_copies();
    synchronize_group<kGroup>(half + 1);
    if (threadIdx.x % kGroup == 0) {
      const int y = item.row + item.tile * kRows + half * 64;
#pragma unroll
      for (int box = 0; box < kD / 64; ++box) {
        store(&o.out, item.head * kD + box * 64, y, m.results[box][half]);
      }
    }
  }
  if (threadIdx.x % kGroup == 0) wait_for_stores<0>();
}

template <int kD>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel([[maybe_unused]] const __grid_constant__ Operands o) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  auto& m = aligned<Memory<kD>>(raw);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      m.item_full[i].init(1);
      m.item_empty[i].init(2 * kGroup);  // each by itself: it has read which item it is
    }
    for (int s = 0; s < Memory<kD>::kStages; ++s) {
      m.keys_full[s].init(1);
      m.values_full[s].init(1);
      m.keys_empty[s].init(2 * kWarps);
      m.values_empty[s].init(2 * kWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  part_ways(
      [&](int thread) {
        if (thread == 0) fetch_all<kD>(o, m);
      },
      [&](int half) { take_queries<kD>(o, m, half); });
#else
  __trap();
#endif
}

template <int kD>
void launch_for(const Operands& o, cudaStream_t stream) {
  static_assert(sizeof(Memory<kD>) + kAlignment - 1 <= 227 * 1024);
  launch(forward_kernel<kD>, kThreads, sizeof(Memory<kD>), o, stream);
}

}  // namespace

void hopper_forward(const AttentionForward& call, Workspace& scratch, cudaStream_t stream) {
  const AttentionGeometry& g = call.shape;
  const int64_t rows = g.B * g.T, width = g.H * g.D;
  auto* const next = static_cast<int*>(scratch.reserve(sizeof(int), stream));
  CUDA_CHECK(cudaMemsetAsync(next, 0, sizeof(int), stream));
  const Operands operands{tensor_map(call.qkv, rows, 3 * width, kRows),
                          tensor_map(call.out, rows, width, 64),
                          call.lse,
                          next,
                          static_cast<int>(g.T),
                          static_cast<int>(g.H),
                          static_cast<int>(rows * g.H / kRows),
                          attention_scale(g)};
  (g.D == 64 ? launch_for<64> : launch_for<128>)(operands, stream);
}

}  // namespace stretto::cuda
