// A block takes 128 keys of a head at a time and walks over the queries that see them, 64 at a
// time. Four groups of four warps: one fetches; two have 64 keys each, make the transposed
// probabilities and their gradient, and add up dk and dv in registers; the last makes dq's share of
// the 64 queries, which two threads of the first add to memory, in f32, by turns: who waits until
// one has arrived there need not hold up the next.
//
// Registers decide what is where: the keys' groups have 208 each, of which 128 are sums.
#include "backend/cuda/attention_hopper.h"
#include "backend/cuda/attention_hopper_dq.cuh"

namespace stretto::cuda {
namespace {

using namespace hopper;

constexpr int kThreads = 4 * kGroup, kStages = 4;
using Operands = BackwardOperands;

struct Memory {
  char keys[2][2][kBoxBytes], values[2][2][kBoxBytes];  // of two items
  char queries[kStages][kBoxBytes], dout[kStages][kBoxBytes];
  char dscores[2][2][kBoxBytes];  // transposed: (keys, queries)
  char results[2][2][kBoxBytes];  // dk and dv of both groups
  RoundedDq<1> rounded;
  float4 dq[8][kGroup];  // laid out as in the sums: a share on its way, or sums to go on from
  alignas(128) float starts[kStages][2][kQueries];  // of scores and of dp
  int item[2];
  Barrier item_full[2], item_empty[2], full[kStages], empty[kStages], ds_full[2], ds_empty[2];
  Barrier dq_full[2], dq_empty, sums_full, sums_taken[2];
};
static_assert(sizeof(Memory) + kAlignment - 1 <= 227 * 1024);

// From queries to the dout that came with them, as operands.
constexpr uint32_t kToDout = (offsetof(Memory, dout) - offsetof(Memory, queries)) >> 4;

__device__ __forceinline__ void fetch_all(const Operands& o, Memory& m) {
  Turn<2> kv;
  Turn<kStages> q;
  int number = atomicAdd(o.sums.next, 1);
  for (;; ++kv.n) {
    const int slot = kv.place();
    if (kv.n >= 2) m.item_empty[slot].wait(kv.parity() ^ 1);
    m.item[slot] = number < o.items ? number : -1;
    if (number >= o.items) return m.item_full[slot].arrive();
    const Item item(o, number);
    m.item_full[slot].expect(4 * kBoxBytes);
    const int first = item.row + item.tile * kKeys;
    fetch(m.keys[slot], &o.keys, (o.heads + item.head) * 64, first, &m.item_full[slot]);
    fetch(m.values[slot], &o.keys, (2 * o.heads + item.head) * 64, first, &m.item_full[slot]);
#pragma unroll 1
    for (int i = 0; i < item.queries; ++i, ++q.n) {
      const int s = q.place(), at = item.tile * kKeys + i * kQueries;
      if (i + 1 == item.queries) number = atomicAdd(o.sums.next, 1);  // not before
      if (q.n >= kStages) m.empty[s].wait(q.parity() ^ 1);
      Barrier* const full = &m.full[s];
      full->expect(2 * kBoxBytes + int(sizeof(m.starts[s])));
      fetch(m.queries[s], &o.qkv, item.head * 64, item.row + at, full);
      fetch(m.dout[s], &o.dout, item.head * 64, item.row + at, full);
      fetch(m.starts[s], &o.starts, 0, int(item.statistics + at) / kQueries, full);
    }
  }
}

// What a group of 64 keys has in registers. dp begins at what is subtracted from it in the end
// (dq::Sums), so that nothing is left to subtract.
struct Share {
  uint32_t keys[4][4];
  float dk[32], dv[32], scores[32], dp[32];
  float2 less[8];
};

// One block of queries, whose scores are there; those of the next are made here. Products run
// beside everything else: each is waited for as late as can be, and in one pass of the loop, since
// the compiler loses count between two.
__device__ __forceinline__ void visit(const Operands& o, Memory& m, Share& share,
                                      const Place& place, int half, uint32_t values,
                                      uint32_t& queries, Turn<kStages> q, Turn<2> ds, bool first,
                                      bool last) {
  const Turn<kStages> next{q.n + (last ? 0 : 1)};  // after the last, nobody reads what is made
  const uint32_t next_queries = uniform(box_operand(m.queries[next.place()]));
  add_rows(share.dp, values, queries + kToDout);
  float p[32];
  make_probabilities(p, share.scores, share.less, o.scale);
  if (first) {  // on the diagonal
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (place.row + i / 2 % 2 * 8 > place.column + i / 4 * 8 + i % 2) p[i] = 0;
    }
  }
  uint32_t words[4][4];
  pack(words, p);
  m.full[next.place()].wait(next.parity());
  place.load_pairs(share.less, m.starts[next.place()][0]);
  add_product(share.dv, words, queries + kToDout, !first);
  multiply_rows(share.scores, share.keys, next_queries);
  if (ds.n >= 2) m.ds_empty[ds.place()].wait(ds.parity() ^ 1);
  wait_for_products<2>();
  settle(share.dp);
  if (!first) place.arrive(m.empty[Turn<kStages>{q.n - 1}.place()]);
  uint32_t gradient[4][4];
  make_dscores(gradient, words, share.dp);
  place.store_box(m.dscores[ds.place()][half], gradient);
  add_product(share.dk, gradient, queries, !first);
  place.load_columns(share.dp, m.starts[next.place()][1]);
  order_before_copies();
  place.arrive(m.ds_full[ds.place()]);
  wait_for_products<1>();
  settle(share.scores);
  queries = next_queries;
}

// dk and dv of 64 keys of every item: the first or the second half.
__device__ __forceinline__ void take_keys(const Operands& o, Memory& m, int half) {
  const Place place;
  Turn<2> kv, ds;
  Turn<kStages> q;
  for (;; ++kv.n) {
    const int slot = kv.place();
    m.item_full[slot].wait(kv.parity());
    const int number = int(uniform(uint32_t(m.item[slot])));
    if (number < 0) break;
    const Item item(o, number);
    Share share;
    place.load_box(share.keys, m.keys[slot][half]);
    const uint32_t values = uniform(box_operand(m.values[slot][half]));
    m.full[q.place()].wait(q.parity());
    int i = 0;
    if (half == 1) {  // these queries see none of these keys
      place.arrive(m.empty[q.place()]);
      if (ds.n >= 2) m.ds_empty[ds.place()].wait(ds.parity() ^ 1);
      place.arrive(m.ds_full[ds.place()]);
      ++i, ++q.n, ++ds.n;
      m.full[q.place()].wait(q.parity());
    }
    uint32_t queries = uniform(box_operand(m.queries[q.place()]));
    multiply_rows(share.scores, share.keys, queries);
    place.load_pairs(share.less, m.starts[q.place()][0]);
    place.load_columns(share.dp, m.starts[q.place()][1]);
    wait_for_products<0>();
    settle(share.scores);
    const int start = i;
#pragma unroll 1
    for (; i < item.queries; ++i, ++q.n, ++ds.n) {
      visit(o, m, share, place, half, values, queries, q, ds, i == start, i + 1 == item.queries);
    }
    wait_for_products<0>();
    settle(share.dk);
    settle(share.dv);
    m.item_empty[slot].arrive();
    place.arrive(m.empty[Turn<kStages>{q.n - 1}.place()]);
    const int row = item.row + item.tile * kKeys + half * 64, barrier = half + 1;
    if (threadIdx.x % kGroup == 0) wait_for_stores<0>();
    synchronize_group<kGroup>(barrier);
    send_result(o, place, m.results[half][0], share.dk, o.scale, (o.heads + item.head) * 64, row,
                barrier);
    send_result(o, place, m.results[half][1], share.dv, 1.0f, (2 * o.heads + item.head) * 64, row,
                barrier);
  }
  if (threadIdx.x % kGroup == 0) wait_for_stores<0>();
}

// dq's shares: of 64 queries by the item's keys.
__device__ __forceinline__ void make_dq(const Operands& o, Memory& m) {
  const Place place;
  const auto four_of = [&](int i) -> float4& { return m.dq[i][threadIdx.x % kGroup]; };
  Turn<2> kv, ds;
  uint32_t sums = 0, results = 0;  // in items that come last
  for (;; ++kv.n) {
    const int slot = kv.place();
    m.item_full[slot].wait(kv.parity());
    const int number = int(uniform(uint32_t(m.item[slot])));
    if (number < 0) return;
    const Item item(o, number);
    const uint32_t keys = uniform(box_operand(m.keys[slot][0]));
    const bool last = comes_last(item);
#pragma unroll 1
    for (int i = 0; i < item.queries; ++i, ++ds.n) {
      float dq[32];
      const bool adds = last && has_sums(i);
      if (adds) {
        m.sums_full.wait(sums++ & 1);
        take_up(four_of, dq);
      } else if (last) {
        m.dq_empty.wait((ds.n & 1) ^ 1);
      }
      if (last) m.sums_taken[ds.place()].arrive();
      m.ds_full[ds.place()].wait(ds.parity());
      const uint32_t a = uniform(box_operand(m.dscores[ds.place()][0]));
      if (i == 0) {  // the second half of the keys is later than these queries
        multiply_columns<64>(dq, a, keys, false);
      } else {
        multiply_columns<kKeys>(dq, a, keys, adds);
      }
      wait_for_products<0>();
      settle(dq);
      place.arrive(m.ds_empty[ds.place()]);
      if (last) {
        m.rounded.lay_down(place, dq, o.scale, 0, results++);
        order_before_copies();
        m.rounded.full[0].arrive();
      } else {
        m.dq_empty.wait((ds.n & 1) ^ 1);
        lay_down(four_of, dq);
        order_before_copies();
        place.arrive(m.dq_full[ds.place()]);
      }
    }
    m.item_empty[slot].arrive();
  }
}

// By two threads, every other block of queries each.
__device__ __forceinline__ void serve_dq(const Operands& o, Memory& m, uint32_t which) {
  DqPort port{reinterpret_cast<char*>(m.dq[0]),
              reinterpret_cast<char*>(m.dq[4]),
              &m.dq_full[which],
              &m.sums_full,
              &m.sums_taken[which],
              &m.dq_empty};
  Turn<2> kv, ds;
  for (;; ++kv.n) {
    const int slot = kv.place();
    m.item_full[slot].wait(kv.parity());
    const int number = m.item[slot];
    if (number < 0) return;
    m.item_empty[slot].arrive();
    const Item item(o, number);
#pragma unroll 1
    for (int i = 0; i < item.queries; ++i, ++ds.n) {
      if (ds.n % 2 != which) continue;
      port.serve(DqTile::of<1>(o, item, i, 0), ds.n, comes_last(item));
    }
  }
}

// By a warp.
__device__ __forceinline__ void send_rounded_dq(const Operands& o, Memory& m) {
  const bool leads = threadIdx.x % 32 == 0;
  Turn<2> kv;
  uint32_t n = 0;
  for (;; ++kv.n) {
    const int slot = kv.place();
    m.item_full[slot].wait(kv.parity());
    const int number = int(uniform(leads ? uint32_t(m.item[slot]) : 0));
    if (number < 0) return;
    if (leads) m.item_empty[slot].arrive();
    const Item item(o, number);
    if (comes_last(item)) m.rounded.send_all(o, item, n);
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel([[maybe_unused]] const __grid_constant__ Operands o) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  Memory& m = aligned<Memory>(raw);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      m.item_full[i].init(1);
      m.item_empty[i].init(3 * kGroup + 3);  // each by itself: it has read which item it is
      m.ds_full[i].init(2 * kWarps);
      m.ds_empty[i].init(kWarps);
      m.dq_full[i].init(kWarps);
      m.sums_taken[i].init(kGroup);
    }
    m.dq_empty.init(1);
    m.sums_full.init(1);
    m.rounded.init();
    for (int s = 0; s < kStages; ++s) {
      m.full[s].init(1);
      m.empty[s].init(2 * kWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  const int number = int(uniform(threadIdx.x / kGroup)), thread = int(threadIdx.x % kGroup);
  if (number == 3) {
    give_registers<24>();
    if (thread == 0) fetch_all(o, m);
    if (thread == 32 || thread == 64) serve_dq(o, m, uint32_t(thread / 32 - 1));
    if (thread >= 96) send_rounded_dq(o, m);
  } else if (number == 2) {
    give_registers<72>();
    make_dq(o, m);
  } else {
    take_registers<208>();
    take_keys(o, m, number);
  }
#else
  __trap();
#endif
}

}  // namespace

void hopper_backward_64(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream) {
  const dq::Sums sums = dq::begin(call, scratch, stream);
  launch(backward_kernel, kThreads, sizeof(Memory), operands_of(call, sums, 2 * kQueries), stream);
  dq::finish(call, sums, stream);
}

}  // namespace stretto::cuda
