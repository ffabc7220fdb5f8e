// AMX: bf16 tiles of one KiB, and products of two by two of them. What the matrix product and the
// attention of CPUs with AMX are made of.
//
// A tile of A holds 16 rows of 32 k. A tile of B holds, for 16 columns, 16 pairs of neighbouring k:
// pair p of column c at [p][c]. An operand is packed panel by panel (16 rows of A, 16 columns of
// B), the tiles of a panel in the order of k. Without AMX the products are emulated: right, for
// tests.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace stretto::amx {

constexpr int64_t kSide = 16;              // rows of a tile of A, columns of one of B, both of C
constexpr int64_t kDepth = 32;             // k of a tile
constexpr int64_t kTile = kSide * kDepth;  // elements

bool native();  // this CPU has AMX for bf16, and the kernel lets this process use it

// Tile of A from rows along memory, `stride` apart: zero beyond `rows` and `depth` (both may be 0).
void pack_a(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t rows, int64_t depth);
// Tile of A whose k lies across memory: src[k][row].
void pack_a_turned(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t rows, int64_t depth);
// Tile of B with k across memory, src[k][column], and along it, src[column][k].
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

// Between its begin and end a thread may multiply.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  void multiply(const Square& square) const;
};

}  // namespace stretto::amx
