// AMX: tiles of bf16 of one KiB each, and products of two by two of them, for the matrix product
// and the attention of CPUs with AMX.
//
// A tile of A holds 16 rows of 32 k. A tile of B holds 16 pairs of neighbouring k for each of 16
// columns: pair p of column c is at [p][c]. Operands are packed panel by panel (16 rows of A, 16
// columns of B), the tiles of a panel in the order of k. Without AMX the products are emulated,
// with the same results, for tests.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace stretto::amx {

constexpr int64_t kSide = 16;              // rows of a tile of A, columns of one of B, both of C
constexpr int64_t kDepth = 32;             // k of a tile
constexpr int64_t kTile = kSide * kDepth;  // elements

bool native();  // this CPU has AMX for bf16, and the kernel allows it to this process

// Packs a tile of A from rows that are contiguous in memory, `stride` apart; zero beyond `rows` and
// `depth` (both may be 0).
void pack_a(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t rows, int64_t depth);
// Packs a tile of A from its transpose: src[k][row].
void pack_a_turned(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t rows, int64_t depth);
// Packs a tile of B from src[k][column], and from its transpose, src[column][k].
void pack_b(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t columns, int64_t depth);
void pack_b_turned(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t columns, int64_t depth);

// c (32 x 32 floats, rows `stride` apart) = [c +] two panels of A times two of B, `depth` tiles of
// k. The second panel lies a_next or b_next elements after the first.
struct Square {
  const bf16_t *a, *b;
  int64_t a_next, b_next;
  int64_t depth;
  float* c;
  int64_t stride;
  bool add;
};

// During its lifetime the thread may multiply tiles.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  void multiply(const Square& square) const;
};

}  // namespace stretto::amx
