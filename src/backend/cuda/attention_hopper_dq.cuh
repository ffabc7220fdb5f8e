// dq's way to memory: blocks of keys add their shares in f32, by turns. The last of them, whose
// turn comes when all others have been there, fetches the sums, goes on from them and rounds the
// result into place.
#pragma once

#include "backend/cuda/attention_hopper.cuh"

namespace stretto::cuda {

constexpr int kBlocksOnDiagonal = kKeys / kQueries;

// The keys that all queries of a head see: nobody adds to dq after them.
__device__ __forceinline__ bool comes_last(const Item& item) { return item.tile == 0; }
// Block i of an item's queries is seen by later keys too, which have been there.
__device__ __forceinline__ bool has_sums(int i) { return i >= kBlocksOnDiagonal; }

// 64 x 64 values of a group as they lie in the sums: `four_of(i)` is a thread's share of eight
// columns.
template <typename FourOf>
__device__ __forceinline__ void lay_down(FourOf four_of, const float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) four_of(i) = {d[4 * i], d[4 * i + 1], d[4 * i + 2], d[4 * i + 3]};
}
template <typename FourOf>
__device__ __forceinline__ void take_up(FourOf four_of, float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float4 four = four_of(i);
    d[4 * i] = four.x;
    d[4 * i + 1] = four.y;
    d[4 * i + 2] = four.z;
    d[4 * i + 3] = four.w;
  }
}

// The sums of 64 queries and 64 columns of a head, of which a block of keys adds a share.
struct DqTile {
  float* sums;
  int* turn;
  int before;  // how many blocks of keys add theirs before

  static constexpr int kHalf = dq::kRows * dq::kColumns / 2;

  // Of block i of an item's queries. `half`: of kHalves parts of the head's columns.
  template <int kHalves>
  __device__ __forceinline__ static DqTile of(const BackwardOperands& o, const Item& item, int i,
                                              int half) {
    const int64_t block = (item.statistics + item.tile * kKeys) / kQueries + i;
    const int64_t number = block * kHalves + half;
    return {o.sums.dq + number * (2 * kHalf), o.sums.turns + number, i / kBlocksOnDiagonal};
  }
  __device__ __forceinline__ void wait_for_turn() const {
    int added;
    do {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                   : "=r"(added)
                   : "l"(__cvta_generic_to_global(turn))
                   : "memory");
    } while (added != before);
    hopper::order_copies();
  }
  __device__ __forceinline__ void end_turn() const {
    hopper::wait_for_arrivals();
    hopper::order_copies();
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(__cvta_generic_to_global(turn)),
                 "r"(before + 1)
                 : "memory");
  }
};

// Where a group's tile of dq passes through shared memory: its share, on the way out, or the sums
// to go on from. By one thread.
struct DqPort {
  char *upper, *lower;     // halves of the tile
  hopper::Barrier* full;   // the share is there
  hopper::Barrier* sums;   // they are there
  hopper::Barrier* taken;  // the sums have been read, or there are none
  hopper::Barrier* empty;  // nobody reads or writes it any more
  uint32_t shares = 0, results = 0;

  // `n`: how many blocks of queries this thread and others have served before.
  __device__ __forceinline__ void serve(const DqTile& tile, uint32_t n, bool last) {
    constexpr int kHalf = DqTile::kHalf, kBytes = kHalf * int(sizeof(float));
    tile.wait_for_turn();
    if (last) {
      if (tile.before > 0) {
        empty->wait((n & 1) ^ 1);
        sums->expect(2 * kBytes);
        hopper::copy(upper, tile.sums, kBytes, sums);
        hopper::copy(lower, tile.sums + kHalf, kBytes, sums);
      }
      taken->wait(results++ & 1);
      return empty->arrive();
    }
    full->wait(shares++ & 1);
    if (tile.before == 0) {
      hopper::store_to(tile.sums, upper, kBytes);
      hopper::store_to(tile.sums + kHalf, lower, kBytes);
    } else {
      hopper::add_to(tile.sums, upper, kBytes);
      hopper::add_to(tile.sums + kHalf, lower, kBytes);
    }
    hopper::wait_for_stores<0>();
    empty->arrive();
    tile.end_turn();
  }
};

// dq of 64 queries on its way from a group to its place.
template <int kHalves>
struct RoundedDq {
  char boxes[kHalves][kBoxBytes];
  hopper::Barrier full[kHalves], empty[kHalves];

  __device__ __forceinline__ void init() {
    for (int half = 0; half < kHalves; ++half) {
      full[half].init(kGroup);  // each by itself: racecheck follows no other way
      empty[half].init(32);
    }
  }
  // By a group: 64 x 64 sums. `n`: how many it has laid down before.
  __device__ __forceinline__ void lay_down(const hopper::Place& place, const float (&dq)[32],
                                           float scale, int half, uint32_t n) {
    empty[half].wait((n & 1) ^ 1);
    float scaled[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) scaled[i] = dq[i] * scale;
    uint32_t words[4][4];
    hopper::pack(words, scaled);
    place.store_box(boxes[half], words);
  }
  // By a warp: those of an item that comes last, with the sums of their columns.
  __device__ __forceinline__ void send_all(const BackwardOperands& o, const Item& item,
                                           uint32_t& n) {
    const int lane = int(threadIdx.x % 32), width = o.heads * kHalves * dq::kColumns;
#pragma unroll 1
    for (int block = 0; block < item.queries; ++block, ++n) {
#pragma unroll 1
      for (int half = 0; half < kHalves; ++half) {
        const int x = (item.head * kHalves + half) * dq::kColumns;
        const int y = item.row + block * dq::kRows;
        full[half].wait(n & 1);
        if (lane == 0) hopper::store(&o.dqkv, x, y, boxes[half]);
        if (o.sums.parts != nullptr) {
          sum_columns(o.sums.parts + int64_t(y / dq::kRows) * width + x, boxes[half]);
        }
        if (lane == 0) hopper::wait_for_stores<0>();
        empty[half].arrive();
      }
    }
  }

 private:
  __device__ __forceinline__ static void sum_columns(float* to, const char* box) {
    const int lane = int(threadIdx.x % 32), column = lane % 8;
    float sums[8] = {};
#pragma unroll 1
    for (int row = lane / 8; row < dq::kRows; row += 4) {
      const char* const from = box + row * 128 + (column ^ row % 8) * 16;
      const auto eight = Pack<bf16, 8>::load(reinterpret_cast<const bf16*>(from));
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] += eight[i];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 8);
      sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 16);
      if (lane < 8) to[column * 8 + i] = sums[i];
    }
  }
};

}  // namespace stretto::cuda
