// Our own matrix product.
//
// Threads take tasks from one list. A task either packs a part of A into panels, for all threads,
// or computes a piece of C; for that a thread packs panels of B just before it uses them. A is
// packed one block of k ahead of its use, so that threads do not all wait for each other between
// the two, and the packed blocks take turns in memory that stays in the cache. Narrow types become
// f32 while they are packed, so bf16 and f16 need no extra pass.
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/targets.h"
#include "base/ceil_div.h"
#include "base/parallel_for.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm_own.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
#include "backend/cpu/gemm_kernel-inl.h"
#include "backend/cpu/gemm_pack-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// Cache blocking: kBlockPanels panels of A and kPiecePanels of B, kBlockK long, share the
// second-level cache and stream from there into the first.
constexpr int64_t kPanelRows = WideTile::kRows, kPanelColumns = columns_of<WideTile>;
constexpr int64_t kBlockK = 384;
constexpr int64_t kBlockPanels = 16;
constexpr int64_t kPiecePanels = 8;
constexpr int64_t kBuffers = 3;                   // blocks of A: in use, ready, being packed
constexpr int64_t kSlabRows = 4096;               // of A, packed at once
constexpr int64_t kPackLimit = int64_t{4} << 20;  // floats of A, where all of k is packed at once
constexpr int64_t kBPanelFloats = kBlockK * kPanelColumns;

// Rows [row0, row0 + rows) and k [k0, k0 + k) of the product: as much of A as is packed at once.
struct Slab {
  int64_t row0, rows, k0, k;
};

constexpr int64_t kRowsAlong = 16;  // rows of memory packed at a time

struct Panel {
  float* data;
  int64_t begin, count, width;  // rows of A or columns of B; zeros from count to width
};

// Packs panels [first, last) of an operand for k in [k0, k0 + k). `along`: a panel's indices are
// contiguous in memory. `size`: how many indices there are in all.
template <typename PanelOf>
void pack_panels(const ConstMatrix& m, bool along, int64_t size, int64_t first, int64_t last,
                 int64_t k0, int64_t k, const PanelOf& panel_of) {
  // If indices are contiguous, a panel is narrow and the stride is long. Then a few rows of all
  // panels are packed at a time, so that memory is read in a few long streams.
  const int64_t step = along ? kRowsAlong : k;
  with_float_type(m.type, [&](auto tag) HWY_ATTR {
    const auto* data = static_cast<const decltype(tag)*>(m.data);
    for (int64_t p = 0; p < k; p += step) {
      const int64_t rows = std::min(step, k - p);
      for (int64_t i = first; i < last; ++i) {
        const Panel panel = panel_of(i);
        if (along) {
          pack_along(panel.data + p * panel.width, data + (k0 + p) * m.stride + panel.begin,
                     m.stride, rows, panel.width, panel.count, size - panel.begin);
        } else {
          pack_across(panel.data, data + panel.begin * m.stride + k0, m.stride, k, panel.width,
                      panel.count);
        }
      }
    }
  });
}

// Divides the k of a slab into blocks of equal length.
struct Blocks {
  int64_t k, count;
  explicit Blocks(int64_t n) : k(n), count(std::max<int64_t>(1, ceil_div(n, kBlockK))) {}
  int64_t begin(int64_t block) const { return block * k / count; }
  int64_t longest() const { return ceil_div(k, count); }
};

// How much of A is packed at once. `direct`: sums are kept in C itself, so a piece of C can be
// continued with the next block of k, and packed blocks take turns in a few buffers. Otherwise a
// piece needs all k of a slab at once.
struct Slabs {
  int64_t row_step, k_step, buffers, block_floats;

  Slabs(int64_t m, int64_t k, bool direct) {
    if (direct) {
      row_step = ceil_div(m, ceil_div(m, kSlabRows));
      k_step = std::max<int64_t>(1, k);
    } else {
      // A long k is divided before rows are, because B is packed again for every slab of rows.
      row_step =
          std::min(m, std::max(kPackLimit / (4 * kBlockK), kPackLimit / std::max<int64_t>(k, 1)));
      const int64_t k_fit = std::max(kPackLimit / row_step / kBlockK, int64_t{1}) * kBlockK;
      k_step = std::max<int64_t>(1, std::min(k, k_fit));
    }
    const Blocks blocks(k_step);
    buffers = direct ? std::min(kBuffers, blocks.count) : blocks.count;
    block_floats = row_step * blocks.longest();
  }
  int64_t floats() const { return buffers * block_floats; }
};

// How a slab is divided into pieces. Results do not depend on it, so it may depend on the threads.
struct Cut {
  int64_t across, down = 1;

  Cut(int64_t a_panels, int64_t b_panels, int threads) : across(ceil_div(b_panels, kPiecePanels)) {
    const int64_t wanted = threads == 1 ? 1 : 4 * threads;
    // Narrow pieces read A more often, short ones pack B more often: first divide columns, then
    // rows.
    across = std::max(across, std::min(wanted, b_panels / 2));
    while (across * down < wanted && a_panels / (2 * down) >= kBlockPanels / 2) down *= 2;
  }
};

GemmScratch own_bytes(int64_t m, int64_t n, int64_t k, bool narrow, int threads) {
  const Slabs slabs(m, k, !narrow);
  const bool whole = narrow && k > slabs.k_step;
  const int64_t a_panels = ceil_div(slabs.row_step, kPanelRows);
  const int64_t b_panels = ceil_div(n, kPanelColumns);
  const Cut cut(a_panels, b_panels, threads);
  const int64_t rows = std::min(m, ceil_div(a_panels, cut.down) * kPanelRows);
  const int64_t panels = ceil_div(b_panels, cut.across);
  const int64_t sums = narrow && !whole ? rows * panels * kPanelColumns : 0;
  return {(slabs.floats() + (whole ? m * n : 0) + cut.across * cut.down) * 4,
          (panels * kBPanelFloats + sums) * 4};
}

// Counts completed work by round. A round is counted only after the fourth one before it is
// complete, so four counters in turn are enough.
class Rounds {
 public:
  explicit Rounds(int64_t tasks) : tasks_(tasks) {}
  void done(int64_t round) { count_[round % 4].fetch_add(1, std::memory_order_release); }
  void await(int64_t round) const {
    if (round < 0) return;
    await_value(count_[round % 4], tasks_ * (round / 4 + 1));
  }

  template <typename Atomic>
  static void await_value(const Atomic& value, int64_t least) {
    for (int tries = 0; value.load(std::memory_order_acquire) < least; ++tries) {
      if (tries > 1000) std::this_thread::yield();
    }
  }

 private:
  int64_t tasks_;
  std::atomic<int64_t> count_[4] = {};
};

class Product {
 public:
  Product(const GemmArgs& args, GemmContext& context)
      : args_(args),
        context_(context),
        direct_(args.c.type == DType::f32 && (args.epilogue.empty() || !args.accumulate)),
        slabs_(args.m, args.k, direct_),
        b_panels_(ceil_div(args.n, kPanelColumns)),
        cut_(ceil_div(slabs_.row_step, kPanelRows), b_panels_, context.threads),
        whole_(!direct_ && args.k > slabs_.k_step) {}

  void run() {
    const int64_t sums = whole_ ? args_.m * args_.n : 0, pieces = cut_.across * cut_.down;
    a_packed_ = context_.shared.floats(slabs_.floats() + sums + pieces);
    sums_ = a_packed_ + slabs_.floats();
    piece_rounds_ = reinterpret_cast<int32_t*>(sums_ + sums);
    for (int64_t i = 0; i < args_.m; i += slabs_.row_step) {
      for (int64_t k0 = 0; k0 == 0 || k0 < args_.k; k0 += slabs_.k_step) {
        run_slab(
            {i, std::min(slabs_.row_step, args_.m - i), k0, std::min(slabs_.k_step, args_.k - k0)});
      }
    }
  }

 private:
  // A round packs and multiplies one block of k, or all blocks at once unless sums are kept in C.
  // The list of tasks is: pack 0, pack 1, multiply 0, pack 2, multiply 1, ... Tasks are handed out
  // in this order, and each waits only for tasks before it.
  void run_slab(const Slab& slab) {
    const RowPanels rows(slab.rows, kPanelRows);
    const Blocks blocks(slab.k);
    const int64_t blocks_each = direct_ ? 1 : blocks.count, rounds = blocks.count / blocks_each;
    const int64_t parts = pack_parts(rows);
    const int64_t packs = blocks_each * parts, pieces = cut_.across * cut_.down;
    Rounds packed(packs), computed(pieces);
    std::fill_n(piece_rounds_, pieces, 0);
    const auto pack = [&](int64_t round, int64_t task) {
      computed.await(round - kBuffers);
      pack_a(slab, rows, round * blocks_each + task / parts, task % parts);
      packed.done(round);
    };
    const auto multiply = [&](int64_t round, int64_t piece, int worker) {
      std::atomic_ref<int32_t> rounds_of_piece(piece_rounds_[piece]);
      Rounds::await_value(rounds_of_piece, round);
      packed.await(round);
      run_piece(slab, rows, piece_at(slab, rows, piece), round * blocks_each,
                (round + 1) * blocks_each, context_.worker[static_cast<size_t>(worker)]);
      rounds_of_piece.store(static_cast<int32_t>(round + 1), std::memory_order_release);
      computed.done(round);
    };
    parallel_for(context_.threads, rounds * (packs + pieces), [&](int64_t task, int worker) {
      if (task < packs) return pack(0, task);
      task -= packs;
      const int64_t round = std::min(task / (packs + pieces), rounds - 1);
      task -= round * (packs + pieces);
      if (round + 1 == rounds) return multiply(round, task, worker);
      if (task < packs) return pack(round + 1, task);
      multiply(round, task - packs, worker);
    });
  }

  // The panels of a block of k follow each other in the order of their use.
  float* a_panel(const Slab& slab, const RowPanels& rows, int64_t panel, int64_t block) const {
    const Blocks blocks(slab.k);
    const int64_t k = blocks.begin(block + 1) - blocks.begin(block);
    return a_packed_ + block % slabs_.buffers * slabs_.block_floats + rows.begin(panel) * k;
  }

  // A block of A is packed in parts of whole memory rows: few k and all panels if panels are
  // contiguous along these rows, else all k of a few panels.
  static constexpr int64_t kPartPanels = 8, kPartRows = 4 * kRowsAlong;
  int64_t pack_parts(const RowPanels& rows) const {
    return args_.a.transposed ? ceil_div(kBlockK, kPartRows) : ceil_div(rows.panels, kPartPanels);
  }
  void pack_a(const Slab& slab, const RowPanels& rows, int64_t block, int64_t part) const {
    const Blocks blocks(slab.k);
    const int64_t begin = blocks.begin(block), k = blocks.begin(block + 1) - begin;
    const bool along = args_.a.transposed;
    const int64_t p0 = along ? std::min(k, part * kPartRows) : 0;
    const int64_t p1 = along ? std::min(k, p0 + kPartRows) : k;
    const int64_t first = along ? 0 : part * kPartPanels;
    const int64_t last = along ? rows.panels : std::min(rows.panels, first + kPartPanels);
    pack_panels(args_.a, along, args_.m, first, last, slab.k0 + begin + p0, p1 - p0,
                [&](int64_t p) {
                  const int64_t height = rows.height(p);
                  return Panel{a_panel(slab, rows, p, block) + p0 * height,
                               slab.row0 + rows.begin(p), height, height};
                });
  }

  // A panels [i0, i1) times B panels [j0, j1).
  struct Piece {
    int64_t i0, i1, j0, j1;
    int64_t row, rows, column, columns;  // the same in elements of C
    float* b = nullptr;                  // packed panels of B, one block of k
    float* sums = nullptr;               // where element (row, column) of the sums is
    int64_t stride = 0;
  };

  Piece piece_at(const Slab& slab, const RowPanels& rows, int64_t piece) const {
    const int64_t i = piece % cut_.down, j = piece / cut_.down;
    Piece at;
    at.i0 = i * rows.panels / cut_.down;
    at.i1 = (i + 1) * rows.panels / cut_.down;
    at.j0 = j * b_panels_ / cut_.across;
    at.j1 = (j + 1) * b_panels_ / cut_.across;
    at.row = slab.row0 + rows.begin(at.i0);
    at.rows = slab.row0 + rows.begin(at.i1) - at.row;
    at.column = at.j0 * kPanelColumns;
    at.columns = std::min(at.j1 * kPanelColumns, args_.n) - at.column;
    return at;
  }

  void run_piece(const Slab& slab, const RowPanels& rows, Piece at, int64_t first_block,
                 int64_t last_block, Scratch& scratch) const {
    const int64_t b_floats = (at.j1 - at.j0) * kBPanelFloats;
    const bool local = !direct_ && !whole_;
    at.b = scratch.floats(b_floats + (local ? at.rows * at.columns : 0));
    at.sums = direct_  ? static_cast<float*>(args_.c.data) + at.row * args_.c.stride + at.column
              : whole_ ? sums_ + at.row * args_.n + at.column
                       : at.b + b_floats;
    at.stride = direct_ ? args_.c.stride : whole_ ? args_.n : at.columns;
    for (int64_t block = first_block; block < last_block; ++block) {
      for (int64_t i = at.i0; i < at.i1; i += kBlockPanels) {
        run_block(slab, rows, at, i, std::min(i + kBlockPanels, at.i1), block);
      }
    }
    const bool last = slab.k0 + Blocks(slab.k).begin(last_block) >= args_.k;
    if (last && !(direct_ && args_.epilogue.empty())) {
      finish_block(args_, at.sums, at.stride, at.row, at.column, at.rows, at.columns);
    }
  }

  // One block of A in the second-level cache times one block of k. The first one packs B.
  void run_block(const Slab& slab, const RowPanels& rows, const Piece& at, int64_t i0, int64_t i1,
                 int64_t block) const {
    const Blocks blocks(slab.k);
    const int64_t p0 = blocks.begin(block), p1 = blocks.begin(block + 1);
    const bool add = slab.k0 + p0 > 0 || (direct_ && args_.accumulate);
    const auto pack_b = [&](int64_t first, int64_t last) {
      pack_panels(args_.b, !args_.b.transposed, args_.n, first, last, slab.k0 + p0, p1 - p0,
                  [&](int64_t j) {
                    const int64_t column = j * kPanelColumns;
                    return Panel{at.b + (j - at.j0) * kBPanelFloats, column,
                                 std::min(kPanelColumns, args_.n - column), kPanelColumns};
                  });
    };
    const bool fresh = i0 == at.i0;
    if (fresh && !args_.b.transposed) pack_b(at.j0, at.j1);
    for (int64_t j = at.j0; j < at.j1; ++j) {
      // Just before its use, so that it is still in L1.
      if (fresh && args_.b.transposed) pack_b(j, j + 1);
      const float* b = at.b + (j - at.j0) * kBPanelFloats;
      const int64_t column = j * kPanelColumns, columns = std::min(kPanelColumns, args_.n - column);
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t height = rows.height(i);
        float* c = at.sums + (slab.row0 + rows.begin(i) - at.row) * at.stride + column - at.column;
        tile_kernel_for<Walk::streamed, WideTile>(height)(p1 - p0, a_panel(slab, rows, i, block),
                                                          height, b, kPanelColumns, c, at.stride,
                                                          columns, add);
      }
    }
  }

  const GemmArgs& args_;
  GemmContext& context_;
  const bool direct_;  // sums are kept in C itself
  const Slabs slabs_;
  const int64_t b_panels_;
  const Cut cut_;
  // Sums are kept in a matrix of C's shape; otherwise in each piece's scratch memory.
  const bool whole_;
  float* a_packed_ = nullptr;
  float* sums_ = nullptr;
  int32_t* piece_rounds_ = nullptr;  // how many rounds each piece has done
};

void run_own(const GemmArgs& args, GemmContext& context) { Product(args, context).run(); }

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(run_own);
HWY_EXPORT(own_bytes);

bool supports_own(const GemmArgs&) { return true; }

GemmScratch own_scratch(int64_t m, int64_t n, int64_t k, bool narrow, int threads) {
  return HWY_DYNAMIC_DISPATCH(own_bytes)(m, n, k, narrow, threads);
}

void gemm_own(const GemmArgs& args, GemmContext& context) {
  HWY_DYNAMIC_DISPATCH(run_own)(args, context);
}

}  // namespace stretto
#endif  // HWY_ONCE
