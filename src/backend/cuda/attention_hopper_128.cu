// As for heads of 64 (attention_hopper_64.cu), but what is left of registers is too little for a
// group that makes dq: the two groups of 64 keys do it, half of the columns each, in the registers
// of dp.
//
// So that products never wait: a group takes the exponentials of the next queries while dk of these
// and dq of those before are made. That dq is one block late leaves the groups free to be half a
// pass apart, so that one multiplies while the other does not. dq goes to memory by copies that
// add, which two threads of the group that fetches look after: additions by those who made it would
// hold up whatever else they want of shared memory.
#include "backend/cuda/attention_hopper.h"
#include "backend/cuda/attention_hopper_dq.cuh"

namespace stretto::cuda {
namespace {

using namespace hopper;

constexpr int kThreads = 3 * kGroup, kD = 128;
using Operands = BackwardOperands;
// Queries are read for longer than dout: until their dk is made, in the next pass.
using QueryTurn = Turn<3>;
using DoutTurn = Turn<2>;

struct Memory {
  char keys[2][2][kBoxBytes], values[2][2][kBoxBytes];  // half of columns, of keys
  char queries[3][2][kBoxBytes], dout[2][2][kBoxBytes];
  char dscores[2][2][kBoxBytes];  // of two blocks; transposed: (keys, queries)
  char dq[2][2][kBoxBytes];  // half of a group's tile, of columns: on its way, or to go on from
  RoundedDq<2> rounded;
  alignas(128) float scores[3][kQueries], dp[2][kQueries];  // where they begin (dq::Sums)
  int item;
  Barrier keys_full, keys_empty, values_full, values_empty;
  Barrier dq_full[2], dq_empty[2], sums_full[2], sums_taken[2];
  Barrier queries_full[3], queries_empty[3], dout_full[2], dout_empty[2];

  // Of a group's part of dq.
  __device__ __forceinline__ auto four_of_dq(int half) {
    return [this, half](int i) -> float4& {
      return reinterpret_cast<float4*>(dq[i / 4][half])[i % 4 * kGroup + int(threadIdx.x % kGroup)];
    };
  }
};
static_assert(sizeof(Memory) + kAlignment - 1 <= 227 * 1024);

// By one thread, until there are no more items: then the item is -1.
__device__ __forceinline__ void fetch_all(const Operands& o, Memory& m) {
  uint32_t n = 0;  // blocks of queries
  const int width = o.heads * kD;
  int next = atomicAdd(o.sums.next, 1);
  for (uint32_t turn = 0;; ++turn) {
    const int number = next;
    if (number >= o.items) {
      if (turn > 0) m.keys_empty.wait((turn & 1) ^ 1);
      m.item = -1;
      return m.keys_full.arrive();
    }
    const Item item(o, number);
    const int x = item.head * kD;
    int y = item.row + item.tile * kKeys;
    int start = int((item.statistics + item.tile * kKeys) / kQueries);
#pragma unroll 1
    for (int left = item.queries; left > 0; --left, ++n, ++start, y += kQueries) {
      if (left == 1) next = atomicAdd(o.sums.next, 1);  // not before
      const QueryTurn q{n};
      if (n >= 3) m.queries_empty[q.place()].wait(q.parity() ^ 1);
      Barrier* full = &m.queries_full[q.place()];
      full->expect(2 * kBoxBytes + int(sizeof(m.scores[0])));
      fetch(m.queries[q.place()][0], &o.qkv, x, y, full);
      fetch(m.queries[q.place()][1], &o.qkv, x + 64, y, full);
      fetch(m.scores[q.place()], &o.starts, 0, start, full);
      if (left == item.queries) {
        if (turn > 0) m.values_empty.wait((turn & 1) ^ 1);
        m.values_full.expect(sizeof(m.values));
        fetch(m.values[0], &o.keys, 2 * width + x, y, &m.values_full);
        fetch(m.values[1], &o.keys, 2 * width + x + 64, y, &m.values_full);
        if (turn > 0) m.keys_empty.wait((turn & 1) ^ 1);
        m.item = number;
        m.keys_full.expect(sizeof(m.keys));
        fetch(m.keys[0], &o.keys, width + x, y, &m.keys_full);
        fetch(m.keys[1], &o.keys, width + x + 64, y, &m.keys_full);
      }
      const DoutTurn d{n};
      if (n >= 2) m.dout_empty[d.place()].wait(d.parity() ^ 1);
      full = &m.dout_full[d.place()];
      full->expect(2 * kBoxBytes + int(sizeof(m.dp[0])));
      fetch(m.dout[d.place()][0], &o.dout, x, y, full);
      fetch(m.dout[d.place()][1], &o.dout, x + 64, y, full);
      fetch(m.dp[d.place()], &o.starts, kQueries, start, full);
    }
  }
}

// d (64, 64) = or += a b^T over 128: a's second half of columns two boxes on, b's one.
__device__ __forceinline__ void multiply_long_rows(float (&d)[32], uint32_t a, uint32_t b,
                                                   bool add) {
  begin_products();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    multiply_boxes<false, false>(d, a + i / 4 * 2 * kBox + i % 4 * kAlong,
                                 b + i / 4 * kBox + i % 4 * kAlong, add || i > 0);
  }
  commit_products();
}

// By a predicate. (A branch, where products are in flight, makes the compiler wait for each.)
__device__ __forceinline__ void arrive_if(Barrier& barrier, bool does) {
  asm volatile(
      "{\n.reg .pred does;\nsetp.ne.b32 does, %1, 0;\n"
      "@does mbarrier.arrive.shared::cta.b64 _, [%0];\n}" ::"r"(shared_address(&barrier)),
      "r"(int(does))
      : "memory");
}

// Named barriers, where one group arrives and the other waits: the former has written its dscores
// of block n; it has made its dq of those of block n - 2, which were in the same place.
constexpr int kWritten = 1, kRead = 5, kAlone = 9, kBoth = 11;  // alone: a group by itself
__device__ __forceinline__ int barrier_of(int what, int half, uint32_t n) {
  return what + 2 * half + int(n & 1);
}
__device__ __forceinline__ void arrive_at(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(2 * kGroup) : "memory");
}

struct Share {
  float dk[64], dv[64], scores[32], dp[32];  // dp: dq's share too
  float2 less[8];
};

// What a group knows of dq: whether its item comes last, and how many sums it has taken up and
// results laid down, in such items.
struct DqState {
  bool last;
  uint32_t sums = 0, results = 0;
};

// Of block n: (queries, 64 columns), the group's half of the columns, all keys.
__device__ __forceinline__ void make_dq(Memory& m, Share& share, int half, uint32_t keys,
                                        uint32_t n, bool adds) {
  synchronize_group<2 * kGroup>(barrier_of(kWritten, 1 - half, n));
  multiply_columns<kKeys>(share.dp, uniform(box_operand(m.dscores[n & 1][0])),
                          keys + uint32_t(half) * kBox, adds);
}

// dq of block n.
__device__ __forceinline__ void lay_down_dq(const Operands& o, Memory& m, const Share& share,
                                            const Place& place, int half, uint32_t n,
                                            DqState& state) {
  if (state.last) {
    m.rounded.lay_down(place, share.dp, o.scale, half, state.results++);
    return;
  }
  m.dq_empty[half].wait((n & 1) ^ 1);
  lay_down(m.four_of_dq(half), share.dp);
}
// If `does`: it has been.
__device__ __forceinline__ void say_laid_down(Memory& m, const Place& place, int half,
                                              const DqState& state, bool does) {
  __syncwarp();
  arrive_if(m.dq_full[half], place.leads && !state.last && does);
  arrive_if(m.rounded.full[half], state.last && does);
}
// Whether dq of block n, number i of the item's queries, goes on from sums, which then are there.
__device__ __forceinline__ bool begin_dq(Memory& m, Share& share, int half, uint32_t n, int i,
                                         DqState& state) {
  const bool adds = state.last && has_sums(i);
  if (adds) {
    m.sums_full[half].wait(state.sums++ & 1);
    take_up(m.four_of_dq(half), share.dp);
  } else if (state.last && i >= 0) {
    m.dq_empty[half].wait((n & 1) ^ 1);
  }
  arrive_if(m.sums_taken[half], state.last && i >= 0);
  return adds;
}
// By one thread for each group.
__device__ __forceinline__ void serve_dq(const Operands& o, Memory& m, int half) {
  DqPort port{m.dq[0][half],      m.dq[1][half],       &m.dq_full[half],
              &m.sums_full[half], &m.sums_taken[half], &m.dq_empty[half]};
  uint32_t n = 0;
  for (uint32_t turn = 0;; ++turn) {
    m.keys_full.wait(turn & 1);
    const int number = m.item;
    if (number < 0) return;
    m.keys_empty.arrive();
    const Item item(o, number);
#pragma unroll 1
    for (int i = 0; i < item.queries; ++i, ++n) {
      port.serve(DqTile::of<2>(o, item, i, half), n, comes_last(item));
    }
  }
}
// By a warp.
__device__ __forceinline__ void send_rounded_dq(const Operands& o, Memory& m) {
  const bool leads = threadIdx.x % 32 == 0;
  uint32_t n = 0;
  for (uint32_t turn = 0;; ++turn) {
    m.keys_full.wait(turn & 1);
    const int number = int(uniform(leads ? uint32_t(m.item) : 0));
    if (number < 0) return;
    if (leads) m.keys_empty.arrive();
    const Item item(o, number);
    if (comes_last(item)) m.rounded.send_all(o, item, n);
  }
}

// Block n of queries, number i of its item, whose scores are there; those of the next are made
// here. In flight when it begins, and waited for here: dk of block n - 1 and dq of n - 2; when it
// ends, those of n and n - 1.
__device__ __forceinline__ void visit(const Operands& o, Memory& m, Share& share,
                                      const Place& place, int half, uint32_t keys, uint32_t values,
                                      uint32_t& queries, uint32_t n, int i, bool ends,
                                      DqState& dq) {
  const QueryTurn next{n + (ends ? 0 : 1)};  // after the last, nobody reads what is made
  const DoutTurn now{n};
  const uint32_t next_queries = uniform(box_operand(m.queries[next.place()][0]));
  const uint32_t dout = uniform(box_operand(m.dout[now.place()][0]));
  make_probabilities(share.scores, share.scores, share.less, o.scale);
  if (i < 2) {  // on the diagonal, or, of the second keys and the first queries, beyond it
#pragma unroll
    for (int e = 0; e < 32; ++e) {
      const int key = half * 64 + place.row + e / 2 % 2 * 8;
      if (key > i * 64 + place.column + e / 4 * 8 + e % 2) share.scores[e] = 0;
    }
  }
  wait_for_products<0>();
  settle(share.dp);
  arrive_at(barrier_of(kRead, half, n));
  if (i > 1) lay_down_dq(o, m, share, place, half, n - 2, dq);
  __syncwarp();
  arrive_if(m.queries_empty[QueryTurn{n - 1}.place()], place.leads && i > 0);
  uint32_t words[4][4];
  pack(words, share.scores);
  m.dout_full[now.place()].wait(now.parity());
  m.queries_full[next.place()].wait(next.parity());
  add_wide_product(share.dv, words, dout, i > 0);
  multiply_long_rows(share.scores, keys, next_queries, false);
  place.load_columns(share.dp, m.dp[now.place()]);
  multiply_long_rows(share.dp, values, dout, true);
  wait_for_products<0>();
  settle(share.scores);
  settle(share.dp);
  make_dscores(words, words, share.dp);
  place.load_pairs(share.less, m.scores[next.place()]);
  place.arrive(m.dout_empty[now.place()]);
  arrive_if(m.values_empty, place.leads && ends);
  synchronize_group<2 * kGroup>(barrier_of(kRead, 1 - half, n));
  place.store_box(m.dscores[n & 1][half], words);
  order_before_copies();
  say_laid_down(m, place, half, dq, i > 1);
  arrive_at(barrier_of(kWritten, half, n));
  const bool adds = begin_dq(m, share, half, n - 1, i - 1, dq);
  add_wide_product(share.dk, words, queries, i > 0);
  make_dq(m, share, half, keys, n - 1, adds);
  queries = next_queries;
}

// dk and dv of 64 keys of every item, and dq's share of half of the columns.
__device__ __forceinline__ void take_keys(const Operands& o, Memory& m, int half) {
  const Place place;
  const uint32_t keys = uniform(box_operand(m.keys[0][half]));
  uint32_t n = 0;
  DqState dq;
  for (uint32_t turn = 0;; ++turn) {
    m.keys_full.wait(turn & 1);
    // Read by those who will say that they have.
    const int number = int(uniform(place.leads ? uint32_t(m.item) : 0));
    if (number < 0) break;
    const Item item(o, number);
    dq.last = comes_last(item);
    Share share;
    const uint32_t values = uniform(box_operand(m.values[0][half]));
    const QueryTurn q{n};
    m.queries_full[q.place()].wait(q.parity());
    uint32_t queries = uniform(box_operand(m.queries[q.place()][0]));
    multiply_long_rows(share.scores, keys, queries, false);
    place.load_pairs(share.less, m.scores[q.place()]);
    if (threadIdx.x % kGroup == 0) wait_for_stores<0>();
    synchronize_group<kGroup>(kAlone + half);      // the results of the item before have left
    arrive_at(barrier_of(kWritten, half, n - 1));  // the first pass makes a dq that nobody reads
    wait_for_products<0>();
    settle(share.scores);
    m.values_full.wait(turn & 1);
#pragma unroll 1
    for (int i = 0; i < item.queries; ++i, ++n) {
      visit(o, m, share, place, half, keys, values, queries, n, i, i + 1 == item.queries, dq);
    }
    wait_for_products<0>();
    settle(share.dk);
    settle(share.dv);
    settle(share.dp);
    place.arrive(m.queries_empty[QueryTurn{n - 1}.place()]);
    lay_down_dq(o, m, share, place, half, n - 2, dq);
    order_before_copies();
    say_laid_down(m, place, half, dq, true);
    const bool adds = begin_dq(m, share, half, n - 1, item.queries - 1, dq);
    make_dq(m, share, half, keys, n - 1, adds);
    wait_for_products<0>();
    settle(share.dp);
    place.arrive(m.keys_empty);
    lay_down_dq(o, m, share, place, half, n - 1, dq);
    order_before_copies();
    say_laid_down(m, place, half, dq, true);
    synchronize_group<2 * kGroup>(kBoth);  // nobody reads dscores: a result takes their place
    const int row = item.row + item.tile * kKeys + half * 64;
    send_result(o, place, m.dscores[0][half], share.dv, 1.0f, (2 * o.heads + item.head) * kD, row,
                kAlone + half);
    m.dq_empty[half].wait((n & 1) ^ 1);
    send_result(o, place, m.dq[0][half], share.dk, o.scale, (o.heads + item.head) * kD, row,
                kAlone + half);
  }
  if (threadIdx.x % kGroup == 0) wait_for_stores<0>();
}

__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel([[maybe_unused]] const __grid_constant__ Operands o) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char raw[];
  Memory& m = aligned<Memory>(raw);
  if (threadIdx.x == 0) {
    m.keys_full.init(1);
    m.keys_empty.init(2 * kWarps + 3);
    m.values_full.init(1);
    m.values_empty.init(2 * kWarps);
    for (int i = 0; i < 2; ++i) {
      m.dq_full[i].init(kWarps);
      m.dq_empty[i].init(1);
      m.sums_full[i].init(1);
      m.sums_taken[i].init(kGroup);
      m.dout_full[i].init(1);
      m.dout_empty[i].init(2 * kWarps);
    }
    for (int i = 0; i < 3; ++i) {
      m.queries_full[i].init(1);
      m.queries_empty[i].init(2 * kWarps);
    }
    m.rounded.init();
    publish_barriers();
  }
  __syncthreads();
  part_ways(
      [&](int thread) {
        if (thread == 0) fetch_all(o, m);
        if (thread == 32 || thread == 64) serve_dq(o, m, thread / 32 - 1);
        if (thread >= 96) send_rounded_dq(o, m);
      },
      [&](int half) { take_keys(o, m, half); });
#else
  __trap();
#endif
}

}  // namespace

void hopper_backward_128(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream) {
  const dq::Sums sums = dq::begin(call, scratch, stream);
  launch(backward_kernel, kThreads, sizeof(Memory), operands_of(call, sums, kQueries), stream);
  dq::finish(call, sums, stream);
}

}  // namespace stretto::cuda
