// Packing of AMX tiles. Whole tiles are transposed in AVX-512 registers, partial ones by loops.
#include <immintrin.h>

#include <cstring>

#include "backend/cpu/amx_tiles.h"

namespace stretto::amx {
namespace {

// dst[r][k] = src[r][k], zero beyond `rows` and `depth`; rows of src lie `stride` apart.
void copy_rows(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t rows, int64_t depth) {
  if (rows == kSide && depth == kDepth) {
    for (int64_t r = 0; r < kSide; ++r) std::memcpy(dst + r * kDepth, src + r * stride, 64);
    return;
  }
  std::memset(dst, 0, kTile * sizeof(bf16_t));
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(dst + r * kDepth, src + r * stride, static_cast<size_t>(depth) * sizeof(bf16_t));
  }
}

// Sixteen rows of pairs, transposed: dst[p][r] = src[r][p].
void turn_pairs(bf16_t* dst, const bf16_t* src) {
  uint32_t from[kSide * kSide], to[kSide * kSide];
  std::memcpy(from, src, sizeof(from));
  for (int64_t r = 0; r < kSide; ++r) {
    for (int64_t p = 0; p < kSide; ++p) to[p * kSide + r] = from[r * kSide + p];
  }
  std::memcpy(dst, to, sizeof(to));
}

// dst[p][c] = the pair (src[2p][c], src[2p + 1][c]).
void join_rows(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t depth, int64_t columns) {
  for (int64_t p = 0; p < kSide; ++p) {
    uint16_t low[kSide] = {}, high[kSide] = {};
    uint32_t joined[kSide];
    const bf16_t* row = src + 2 * p * stride;
    const size_t bytes = static_cast<size_t>(columns) * sizeof(bf16_t);
    if (2 * p < depth) std::memcpy(low, row, bytes);
    if (2 * p + 1 < depth) std::memcpy(high, row + stride, bytes);
    for (int64_t c = 0; c < kSide; ++c) joined[c] = low[c] | static_cast<uint32_t>(high[c]) << 16;
    std::memcpy(dst + p * kDepth, joined, sizeof(joined));
  }
}

// GCC 12 warns of values that its own intrinsics leave undefined on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// Whole tiles, by AVX-512, which every CPU with AMX has: sixteen rows of sixteen pairs in
// registers.
#define STRETTO_AVX512 __attribute__((target("avx512f,avx512bw")))
#define STRETTO_AVX512_INLINE STRETTO_AVX512 __attribute__((always_inline)) inline

bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512bw");
  return has;
}

STRETTO_AVX512_INLINE void load_pairs(__m512i (&pairs)[kSide], const bf16_t* src, int64_t stride) {
  for (int64_t r = 0; r < kSide; ++r) pairs[r] = _mm512_loadu_si512(src + r * stride);
}

STRETTO_AVX512_INLINE __m512i load_wide(const void* src) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(src)));
}

STRETTO_AVX512_INLINE void join_pairs(__m512i (&pairs)[kSide], const bf16_t* src, int64_t stride) {
  for (int64_t p = 0; p < kSide; ++p, src += 2 * stride) {
    pairs[p] = _mm512_or_si512(load_wide(src), _mm512_slli_epi32(load_wide(src + stride), 16));
  }
}

STRETTO_AVX512_INLINE void store_pairs(bf16_t* dst, const __m512i (&pairs)[kSide]) {
  for (int64_t r = 0; r < kSide; ++r) _mm512_storeu_si512(dst + r * kDepth, pairs[r]);
}

// Transposes: afterwards pairs[p] holds pair p of all rows. Squares of four by four are transposed
// in place, then exchanged.
STRETTO_AVX512_INLINE void turn(__m512i (&pairs)[kSide]) {
  __m512i fours[kSide], halves[kSide];
  for (int64_t r = 0; r < kSide; r += 4) {
    const __m512i low = _mm512_unpacklo_epi32(pairs[r], pairs[r + 1]);
    const __m512i high = _mm512_unpackhi_epi32(pairs[r], pairs[r + 1]);
    const __m512i low2 = _mm512_unpacklo_epi32(pairs[r + 2], pairs[r + 3]);
    const __m512i high2 = _mm512_unpackhi_epi32(pairs[r + 2], pairs[r + 3]);
    fours[r] = _mm512_unpacklo_epi64(low, low2);
    fours[r + 1] = _mm512_unpackhi_epi64(low, low2);
    fours[r + 2] = _mm512_unpacklo_epi64(high, high2);
    fours[r + 3] = _mm512_unpackhi_epi64(high, high2);
  }
  for (int64_t i = 0; i < 4; ++i) {  // rows 4q + i: quarter s of it is pair 4s + i of rows 4q..
    halves[i] = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0x88);
    halves[i + 4] = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0xdd);
    halves[i + 8] = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0x88);
    halves[i + 12] = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0xdd);
  }
  for (int64_t i = 0; i < 4; ++i) {
    pairs[i] = _mm512_shuffle_i32x4(halves[i], halves[i + 8], 0x88);
    pairs[i + 8] = _mm512_shuffle_i32x4(halves[i], halves[i + 8], 0xdd);
    pairs[i + 4] = _mm512_shuffle_i32x4(halves[i + 4], halves[i + 12], 0x88);
    pairs[i + 12] = _mm512_shuffle_i32x4(halves[i + 4], halves[i + 12], 0xdd);
  }
}

STRETTO_AVX512 void join_tile(bf16_t* dst, const bf16_t* src, int64_t stride) {
  __m512i pairs[kSide];
  join_pairs(pairs, src, stride);
  store_pairs(dst, pairs);
}

STRETTO_AVX512 void turn_tile(bf16_t* dst, const bf16_t* src, int64_t stride) {
  __m512i pairs[kSide];
  load_pairs(pairs, src, stride);
  turn(pairs);
  store_pairs(dst, pairs);
}

STRETTO_AVX512 void join_and_turn_tile(bf16_t* dst, const bf16_t* src, int64_t stride) {
  __m512i pairs[kSide];
  join_pairs(pairs, src, stride);
  turn(pairs);
  store_pairs(dst, pairs);
}

bool whole(int64_t side, int64_t depth) { return side == kSide && depth == kDepth && has_avx512(); }

}  // namespace

void pack_a(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t rows, int64_t depth) {
  copy_rows(dst, src, stride, rows, depth);
}

void pack_a_turned(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t rows, int64_t depth) {
  if (whole(rows, depth)) return join_and_turn_tile(dst, src, stride);
  alignas(64) bf16_t joined[kTile];
  join_rows(joined, src, stride, depth, rows);
  turn_pairs(dst, joined);
}

void pack_b(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t columns, int64_t depth) {
  if (whole(columns, depth)) return join_tile(dst, src, stride);
  join_rows(dst, src, stride, depth, columns);
}

void pack_b_turned(bf16_t* dst, const bf16_t* src, int64_t stride, int64_t columns, int64_t depth) {
  if (whole(columns, depth)) return turn_tile(dst, src, stride);
  alignas(64) bf16_t rows[kTile];
  copy_rows(rows, src, stride, columns, depth);
  turn_pairs(dst, rows);
}

}  // namespace stretto::amx
