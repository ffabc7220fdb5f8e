// bf16 matrix products with AMX tiles. Both operands are packed once, by all threads; then pieces
// of C are multiplied. The sums of a piece stay in its thread's scratch memory until the last block
// of k, and then go through the epilogue.
//
// Every element of C is one chain of sums over k, block by block, whatever the pieces are, so
// results do not depend on the number of threads.
#include <algorithm>

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/gemm_implementations.h"
#include "base/ceil_div.h"
#include "base/parallel_for.h"

namespace stretto {
namespace {

using amx::kDepth;
using amx::kSide;
using amx::kTile;

constexpr int64_t kBlockTiles = 32;         // tiles of k between two visits of C
constexpr int64_t kPiece = 256;             // rows and columns of a piece, at most
constexpr int64_t kSums = kPiece * kPiece;  // floats

// Tile of A at (row, k).
void pack_a(bf16_t* dst, const GemmArgs& args, int64_t row, int64_t k) {
  const auto* a = static_cast<const bf16_t*>(args.a.data);
  const int64_t stride = args.a.stride;
  const int64_t rows = std::clamp<int64_t>(args.m - row, 0, kSide);
  const int64_t depth = std::min(kDepth, args.k - k);
  if (args.a.transposed) {
    amx::pack_a_turned(dst, a + k * stride + row, stride, rows, depth);
  } else {
    amx::pack_a(dst, a + row * stride + k, stride, rows, depth);
  }
}

// Tile of B at (k, column).
void pack_b(bf16_t* dst, const GemmArgs& args, int64_t column, int64_t k) {
  const auto* b = static_cast<const bf16_t*>(args.b.data);
  const int64_t stride = args.b.stride;
  const int64_t columns = std::clamp<int64_t>(args.n - column, 0, kSide);
  const int64_t depth = std::min(kDepth, args.k - k);
  if (args.b.transposed) {
    amx::pack_b_turned(dst, b + column * stride + k, stride, columns, depth);
  } else {
    amx::pack_b(dst, b + k * stride + column, stride, columns, depth);
  }
}

// Rows and columns of a piece: whole squares, and enough pieces for all threads.
struct Cut {
  int64_t rows = kPiece, columns = kPiece;

  Cut(const GemmArgs& args, int threads) {
    const auto pieces = [&] { return ceil_div(args.m, rows) * ceil_div(args.n, columns); };
    const int64_t wanted = threads == 1 ? 1 : 4 * static_cast<int64_t>(threads);
    while (pieces() < wanted && std::max(rows, columns) > 2 * kSide) {
      (rows >= columns ? rows : columns) /= 2;
    }
  }
};

void run_piece(const GemmArgs& args, const bf16_t* a, const bf16_t* b, const Cut& cut,
               int64_t piece, float* sums) {
  const int64_t across = ceil_div(args.n, cut.columns), depth = ceil_div(args.k, kDepth);
  const int64_t row = piece / across * cut.rows, column = piece % across * cut.columns;
  const int64_t rows = std::min(cut.rows, args.m - row);
  const int64_t columns = std::min(cut.columns, args.n - column);
  const int64_t blocks = ceil_div(depth, kBlockTiles);
  {
    const amx::Session session;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t t0 = block * depth / blocks, t1 = (block + 1) * depth / blocks;
      for (int64_t j = 0; j < columns; j += 2 * kSide) {
        for (int64_t i = 0; i < rows; i += 2 * kSide) {
          const amx::Square square{a + ((row + i) / kSide * depth + t0) * kTile,
                                   b + ((column + j) / kSide * depth + t0) * kTile,
                                   depth * kTile,
                                   depth * kTile,
                                   t1 - t0,
                                   sums + i * cut.columns + j,
                                   cut.columns,
                                   block > 0};
          session.multiply(square);
        }
      }
    }
  }
  finish_block(args, sums, cut.columns, row, column, rows, columns);
}

// Tiles of rows (or columns), rounded up to an even number, so that squares never reach beyond the
// packed operand.
int64_t even_tiles(int64_t size) { return round_up(ceil_div(size, kSide), 2); }

}  // namespace

bool amx_is_native() { return amx::native(); }

bool supports_amx(const GemmArgs& args) {
  return args.k > 0 && args.a.type == DType::bf16 && args.b.type == DType::bf16;
}

GemmScratch amx_scratch(int64_t m, int64_t n, int64_t k) {
  const int64_t tiles = (even_tiles(m) + even_tiles(n)) * ceil_div(k, kDepth);
  return {tiles * kTile * static_cast<int64_t>(sizeof(bf16_t)), kSums * 4};
}

void gemm_amx(const GemmArgs& args, GemmContext& context) {
  const int64_t depth = ceil_div(args.k, kDepth);
  const int64_t a_tiles = even_tiles(args.m), b_tiles = even_tiles(args.n);
  auto* a = static_cast<bf16_t*>(
      context.shared.bytes(static_cast<size_t>(amx_scratch(args.m, args.n, args.k).shared)));
  bf16_t* b = a + a_tiles * depth * kTile;
  // A few neighbouring panels at a time: if k is not contiguous in memory, they share cache lines.
  constexpr int64_t kGroup = 4;
  const int64_t a_groups = ceil_div(a_tiles, kGroup), b_groups = ceil_div(b_tiles, kGroup);
  parallel_for(context.threads, a_groups + b_groups, [&](int64_t group) {
    const bool of_a = group < a_groups;
    const int64_t first = (of_a ? group : group - a_groups) * kGroup;
    const int64_t last = std::min(first + kGroup, of_a ? a_tiles : b_tiles);
    for (int64_t t = 0; t < depth; ++t) {
      for (int64_t i = first; i < last; ++i) {
        bf16_t* to = (of_a ? a : b) + (i * depth + t) * kTile;
        (of_a ? pack_a : pack_b)(to, args, i * kSide, t * kDepth);
      }
    }
  });
  const Cut cut(args, context.threads);
  const int64_t pieces = ceil_div(args.m, cut.rows) * ceil_div(args.n, cut.columns);
  parallel_for(context.threads, pieces, [&](int64_t piece, int worker) {
    float* sums = context.worker[static_cast<size_t>(worker)].floats(kSums);
    run_piece(args, a, b, cut, piece, sums);
  });
}

}  // namespace stretto
