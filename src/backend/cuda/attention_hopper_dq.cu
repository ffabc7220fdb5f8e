// dq of causal attention, heads of 64, added up in registers and so always in the same order. A
// block takes 128 queries of a head at a time and walks over the keys that they see, 64 at a time.
// Three groups of four warps: one fetches; two have 64 queries each.
#include "backend/cuda/attention_hopper.cuh"

namespace stretto::cuda {
namespace {

using namespace hopper;

constexpr int kThreads = 3 * kGroup, kStages = 8;
using Operands = BackwardOperands;

struct Memory {
  char queries[2][2][kBoxBytes], dout[2][2][kBoxBytes];  // of two items
  char keys[kStages][kBoxBytes], values[kStages][kBoxBytes];
  char results[2][kBoxBytes];
  int item[2];
  Barrier item_full[2], item_empty[2], full[kStages], empty[kStages];
};
static_assert(sizeof(Memory) + kAlignment - 1 <= 227 * 1024);
// From keys to the values that came with them, as operands.
constexpr uint32_t kToValues = (offsetof(Memory, values) - offsetof(Memory, keys)) >> 4;

// Queries [128 tile, 128 tile + 128). Late queries, which see most keys, come first.
__device__ __forceinline__ int tile_of(const Operands& o, const Item& item) {
  return o.T / kKeys - 1 - item.tile;
}

__device__ __forceinline__ void fetch_all(const Operands& o, Memory& m) {
  Turn<2> q;
  Turn<kStages> kv;
  int number = atomicAdd(o.sums.next + 1, 1);
  for (;; ++q.n) {
    const int slot = q.place();
    if (q.n >= 2) m.item_empty[slot].wait(q.parity() ^ 1);
    m.item[slot] = number < o.items ? number : -1;
    if (number >= o.items) return m.item_full[slot].arrive();
    const Item item(o, number);
    const int x = item.head * 64, tile = tile_of(o, item), y = item.row + tile * kKeys;
    Barrier* const item_full = &m.item_full[slot];
    item_full->expect(4 * kBoxBytes);
    fetch(m.queries[slot], &o.keys, x, y, item_full);
    fetch(m.dout[slot][0], &o.dout, x, y, item_full);
    fetch(m.dout[slot][1], &o.dout, x, y + 64, item_full);
    int row = item.row;
#pragma unroll 1
    for (int left = 2 * tile + 2; left > 0; --left, ++kv.n, row += 64) {
      if (left == 2) number = atomicAdd(o.sums.next + 1, 1);  // not before
      const int s = kv.place();
      if (kv.n >= kStages) m.empty[s].wait(kv.parity() ^ 1);
      Barrier* const full = &m.full[s];
      full->expect(2 * kBoxBytes);
      fetch(m.keys[s], &o.qkv, o.heads * 64 + x, row, full);
      fetch(m.values[s], &o.qkv, 2 * o.heads * 64 + x, row, full);
    }
  }
}

// What a group of 64 queries has in registers.
struct Share {
  uint32_t queries[4][4];  // dout has no product before the loop: ptxas 13.0 loses it there
  float scores[32], dp[32], dq[32];
  float less[2], delta[2];  // of its two rows (dq::Sums)
};

// Where it ends as dp less delta.
__device__ __forceinline__ void begin_dp(Share& share) {
#pragma unroll
  for (int i = 0; i < 32; ++i) share.dp[i] = share.delta[i / 2 % 2];
}

// One block of keys, whose scores are there; those of the next are made here. In flight when it
// begins: dq of the block before; when it ends, of this one.
__device__ __forceinline__ void visit(const Operands& o, Memory& m, Share& share,
                                      const Place& place, uint32_t dout, uint32_t& keys,
                                      Turn<kStages> kv, bool first, bool last) {
  const Turn<kStages> next{kv.n + (last ? 0 : 1)};  // after the last, nobody reads what is made
  const uint32_t next_keys = uniform(box_operand(m.keys[next.place()]));
  add_rows(share.dp, dout, keys + kToValues);
  const float scale = o.scale * kLog2e;
  float p[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    p[i] = power_of_two(fmaf(share.scores[i], scale, share.less[i / 2 % 2]));
  }
  if (last) {  // on the diagonal
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (place.column + i / 4 * 8 + i % 2 > place.row + i / 2 % 2 * 8) p[i] = 0;
    }
  }
  uint32_t words[4][4];
  pack(words, p);
  m.full[next.place()].wait(next.parity());
  multiply_rows(share.scores, share.queries, next_keys);
  wait_for_products<1>();
  settle(share.dp);
  if (!first) place.arrive(m.empty[Turn<kStages>{kv.n - 1}.place()]);
  uint32_t gradient[4][4];
  make_dscores(gradient, words, share.dp);
  add_product(share.dq, gradient, keys, !first);
  begin_dp(share);
  wait_for_products<1>();
  settle(share.scores);
  keys = next_keys;
}

// dq of 64 queries of every item: the first or the second half.
__device__ __forceinline__ void take_queries(const Operands& o, Memory& m, int half) {
  const Place place;
  Turn<2> q;
  Turn<kStages> kv;
  for (;; ++q.n) {
    const int slot = q.place();
    m.item_full[slot].wait(q.parity());
    const int number = int(uniform(uint32_t(m.item[slot])));
    if (number < 0) break;
    const Item item(o, number);
    const int tile = tile_of(o, item), y = tile * kKeys + half * 64;
    Share share;
    const float* const starts = o.sums.starts + (item.statistics + y) * 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      share.less[r] = starts[place.row + 8 * r];
      share.delta[r] = starts[kQueries + place.row + 8 * r];
    }
    place.load_box(share.queries, m.queries[slot][half]);
    const uint32_t dout = uniform(box_operand(m.dout[slot][half]));
    m.full[kv.place()].wait(kv.parity());
    uint32_t keys = uniform(box_operand(m.keys[kv.place()]));
    multiply_rows(share.scores, share.queries, keys);
    begin_dp(share);
    wait_for_products<0>();
    settle(share.scores);
    const int last = 2 * tile + half;
#pragma unroll 1
    for (int j = 0; j <= last; ++j, ++kv.n) {
      visit(o, m, share, place, dout, keys, kv, j == 0, j == last);
    }
    wait_for_products<0>();
    settle(share.dq);
    m.item_empty[slot].arrive();
    place.arrive(m.empty[Turn<kStages>{kv.n - 1}.place()]);
    if (half == 0) {  // these queries see none of the last keys
      m.full[kv.place()].wait(kv.parity());
      place.arrive(m.empty[kv.place()]);
      ++kv.n;
    }
    if (threadIdx.x % kGroup == 0) wait_for_stores<0>();
    synchronize_group<kGroup>(half + 1);
    send_result(o, place, m.results[half], share.dq, o.scale, item.head * 64, item.row + y,
                half + 1);
  }
  if (threadIdx.x % kGroup == 0) wait_for_stores<0>();
}

__global__ void __launch_bounds__(kThreads, 1)
    dq_kernel([[maybe_unused]] const __grid_constant__ Operands o) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  Memory& m = aligned<Memory>(raw);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      m.item_full[i].init(1);
      m.item_empty[i].init(2 * kGroup);  // each by itself: it has read which item it is
    }
    for (int s = 0; s < kStages; ++s) {
      m.full[s].init(1);
      m.empty[s].init(2 * kWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  part_ways(
      [&](int thread) {
        if (thread == 0) fetch_all(o, m);
      },
      [&](int half) { take_queries(o, m, half); });
#else
  __trap();
#endif
}

}  // namespace

void make_dq_64(const BackwardOperands& operands, cudaStream_t stream) {
  launch(dq_kernel, kThreads, sizeof(Memory), operands, stream);
}

}  // namespace stretto::cuda
