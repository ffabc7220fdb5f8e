// Causal attention in bf16 with AMX tiles. The tiling is that of attention_forward.cpp and
// attention_backward.cpp. Products take bf16 operands and add in f32, and the softmax is in f32.
// Probabilities and their gradients are rounded to bf16 before they enter a product.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/attention.h"
#include "backend/cpu/attention_rows.h"
#include "backend/cpu/gemm_implementations.h"
#include "base/ceil_div.h"
#include "base/parallel_for.h"

namespace stretto {
namespace {

using amx::kDepth;
using amx::kSide;
using amx::kTile;

constexpr int64_t kBlock = 128;           // queries, and keys, of one tile of scores
constexpr int64_t kStride = kBlock + 16;  // floats between rows of scores
constexpr int64_t kSquare = 2 * kSide;
constexpr int64_t kPanels = kBlock / kSide;  // of a block
constexpr int64_t kSteps = kBlock / kDepth;  // tiles along a block

int64_t padded(int64_t rows) { return round_up(rows, kBlock); }

// Hands out 64-byte aligned stretches of a piece's scratch memory. Without scratch memory it only
// counts.
class Carver {
 public:
  explicit Carver(void* memory) : memory_(static_cast<char*>(memory)) {}
  template <typename T>
  T* take(int64_t count) {
    char* taken = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
    return reinterpret_cast<T*>(taken);
  }
  int64_t used() const { return used_; }

 private:
  char* memory_;
  int64_t used_ = 0;
};

// One head's rows in a (B, T, ...) tensor.
struct Rows {
  const bf16_t* data;
  int64_t stride;
  int64_t count;  // of the sequence
  int64_t width;

  const bf16_t* at(int64_t row) const { return data + row * stride; }
  int64_t left(int64_t row, int64_t most) const {
    return std::clamp<int64_t>(count - row, 0, most);
  }

  // Packs panels of kBlock rows from `row`, with k along the row: as A, or as B of a product with
  // the transpose.
  void pack(bf16_t* to, int64_t row, bool as_b) const {
    const int64_t steps = width / kDepth;
    for (int64_t i = 0; i < kPanels * steps; ++i) {
      const int64_t r = row + i / steps * kSide, k = i % steps * kDepth;
      (as_b ? amx::pack_b_turned : amx::pack_a)(to + i * kTile, at(r) + k, stride, left(r, kSide),
                                                kDepth);
    }
  }
  // Packs B of a product that sums over kBlock rows from `row`.
  void pack_sum(bf16_t* to, int64_t row) const {
    for (int64_t i = 0; i < width / kSide * kSteps; ++i) {
      const int64_t r = row + i % kSteps * kDepth, column = i / kSteps * kSide;
      amx::pack_b(to + i * kTile, at(r) + column, stride, kSide, left(r, kDepth));
    }
  }
};

// A block of scores as bf16, and packed as A of the products that follow.
struct Rounded {
  bf16_t* rows;  // (kBlock, kBlock)

  void store(const float* scores) const {
    for (int64_t r = 0; r < kBlock; ++r) {
      store_floats(rows + r * kBlock, DType::bf16, scores + r * kStride, kBlock);
    }
  }
  void pack(bf16_t* to, bool turned) const {
    for (int64_t i = 0; i < kPanels * kSteps; ++i) {
      const int64_t r = i / kSteps * kSide, k = i % kSteps * kDepth;
      if (turned) {
        amx::pack_a_turned(to + i * kTile, rows + k * kBlock + r, kBlock, kSide, kDepth);
      } else {
        amx::pack_a(to + i * kTile, rows + r * kBlock + k, kBlock, kSide, kDepth);
      }
    }
  }
};

// scores (kBlock, kBlock) = a b^T over `width`; squares entirely beyond the diagonal are skipped.
void score_block(const amx::Session& session, float* scores, const bf16_t* a, const bf16_t* b,
                 int64_t width, int64_t offset) {
  const int64_t panel = width / kDepth * kTile;
  for (int64_t j = 0; j < kBlock; j += kSquare) {
    for (int64_t i = 0; i < kBlock; i += kSquare) {
      if (j > i + kSquare - 1 + offset) continue;
      session.multiply({a + i / kSide * panel, b + j / kSide * panel, panel, panel, width / kDepth,
                        scores + i * kStride + j, kStride, false});
    }
  }
}

// out (kBlock, width) += a (kBlock, kBlock) b (kBlock, width).
void add_block(const amx::Session& session, float* out, const bf16_t* a, const bf16_t* b,
               int64_t width) {
  constexpr int64_t kPanel = kSteps * kTile;
  for (int64_t j = 0; j < width; j += kSquare) {
    for (int64_t i = 0; i < kBlock; i += kSquare) {
      session.multiply({a + i / kSide * kPanel, b + j / kSide * kPanel, kPanel, kPanel, kSteps,
                        out + i * width + j, width, true});
    }
  }
}

struct Forward {
  bf16_t *k, *v, *q, *packed;
  Rounded p;
  float *s, *o, *max, *sum;

  static Forward take(Carver& memory, int64_t t, int64_t d) {
    Forward f{};
    f.k = memory.take<bf16_t>(padded(t) * d);
    f.v = memory.take<bf16_t>(padded(t) * d);
    f.q = memory.take<bf16_t>(kBlock * d);
    f.packed = memory.take<bf16_t>(kBlock * kBlock);
    f.p.rows = memory.take<bf16_t>(kBlock * kBlock);
    f.s = memory.take<float>(kBlock * kStride);
    f.o = memory.take<float>(kBlock * d);
    f.max = memory.take<float>(kBlock);
    f.sum = memory.take<float>(kBlock);
    return f;
  }
};

// Queries [begin, end) of one head.
void forward_piece(bf16_t* out, int64_t out_stride, float* lse, const Rows& q, const Rows& k,
                   const Rows& v, int64_t begin, int64_t end, float scale, float slope,
                   const Forward& m) {
  const int64_t d = q.width;
  const amx::Session session;
  for (int64_t k0 = 0; k0 < end; k0 += kBlock) {
    k.pack(m.k + k0 * d, k0, true);
    v.pack_sum(m.v + k0 * d, k0);
  }
  for (int64_t q0 = begin; q0 < end; q0 += kBlock) {
    const int64_t rows = std::min(kBlock, end - q0);
    q.pack(m.q, q0, false);
    std::fill_n(m.o, kBlock * d, 0.0f);
    std::fill_n(m.sum, kBlock, 0.0f);
    std::fill_n(m.max, kBlock, -std::numeric_limits<float>::infinity());
    std::fill_n(m.s, kBlock * kStride, 0.0f);
    for (int64_t k0 = 0; k0 < q0 + rows; k0 += kBlock) {
      score_block(session, m.s, m.q, m.k + k0 * d, d, q0 - k0);
      for (int64_t r = 0; r < kBlock; ++r) {
        float* s = m.s + r * kStride;
        const int64_t visible = r < rows ? std::min(kBlock, r + q0 - k0 + 1) : 0;
        if (visible > 0) {
          const auto distance = static_cast<float>(r + q0 - k0);
          const float shrink =
              attention_softmax_row(s, visible, scale, slope, distance, &m.max[r], &m.sum[r]);
          if (shrink != 1) attention_scale_row(m.o + r * d, d, shrink);
        }
        std::fill(s + visible, s + kBlock, 0.0f);
      }
      m.p.store(m.s);
      m.p.pack(m.packed, false);
      add_block(session, m.o, m.packed, m.v + k0 * d, d);
    }
    for (int64_t r = 0; r < rows; ++r) {
      lse[q0 + r] = m.max[r] + std::log(m.sum[r]);
      attention_scale_row(m.o + r * d, d, 1 / m.sum[r]);
      store_floats(out + (q0 + r) * out_stride, DType::bf16, m.o + r * d, d);
    }
  }
}

struct Backward {
  bf16_t *q, *go, *q_sum, *go_sum;          // the whole head, as A and as B
  bf16_t *k, *k_sum, *v;                    // one block of keys
  bf16_t *p_turned, *ds_turned, *ds_plain;  // one block of scores as A
  Rounded rounded;
  float *dq, *dk, *dv, *p, *ds, *delta, *row;

  static Backward take(Carver& memory, int64_t t, int64_t d) {
    Backward b{};
    const int64_t all = padded(t) * d, block = kBlock * d, square = kBlock * kBlock;
    for (bf16_t** x : {&b.q, &b.go, &b.q_sum, &b.go_sum}) *x = memory.take<bf16_t>(all);
    for (bf16_t** x : {&b.k, &b.k_sum, &b.v}) *x = memory.take<bf16_t>(block);
    for (bf16_t** x : {&b.p_turned, &b.ds_turned, &b.ds_plain, &b.rounded.rows}) {
      *x = memory.take<bf16_t>(square);
    }
    b.dq = memory.take<float>(all);
    for (float** x : {&b.dk, &b.dv}) *x = memory.take<float>(block);
    for (float** x : {&b.p, &b.ds}) *x = memory.take<float>(kBlock * kStride);
    b.delta = memory.take<float>(padded(t));
    b.row = memory.take<float>(2 * d);
    return b;
  }
};

// Turns scores and dp of a pair of blocks into p and ds; zero beyond the diagonal and the sequence.
void backward_rows(const Backward& m, int64_t q0, int64_t k0, int64_t t, const float* lse,
                   float scale, float slope) {
  for (int64_t r = 0; r < kBlock; ++r) {
    const int64_t keys = std::min(kBlock, t - k0);
    const int64_t visible = q0 + r < t ? std::min(keys, r + q0 - k0 + 1) : 0;
    float *p = m.p + r * kStride, *ds = m.ds + r * kStride;
    if (visible > 0) {
      attention_backward_row(p, ds, visible, scale, slope, static_cast<float>(r + q0 - k0),
                             lse[q0 + r], m.delta[q0 + r]);
    }
    std::fill(p + visible, p + kBlock, 0.0f);
    std::fill(ds + visible, ds + kBlock, 0.0f);
  }
}

// Computes delta, the row sums of out * dout, and packs q and dout in both ways.
void prepare(const Backward& m, const Rows& q, const Rows& go, const Rows& out) {
  const int64_t d = q.width;
  for (int64_t r = 0; r < q.count; ++r) {
    load_floats(m.row, out.at(r), DType::bf16, d);
    load_floats(m.row + d, go.at(r), DType::bf16, d);
    m.delta[r] = attention_row_dot(m.row, m.row + d, d);
  }
  for (int64_t q0 = 0; q0 < q.count; q0 += kBlock) {
    q.pack(m.q + q0 * d, q0, false);
    go.pack(m.go + q0 * d, q0, false);
    q.pack_sum(m.q_sum + q0 * d, q0);
    go.pack_sum(m.go_sum + q0 * d, q0);
  }
  std::fill_n(m.dq, padded(q.count) * d, 0.0f);
}

void store_rows(bf16_t* to, int64_t stride, const float* from, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    store_floats(to + r * stride, DType::bf16, from + r * width, width);
  }
}

// One head; dq, dk, dv begin at its first row, `stride` apart.
void backward_piece(bf16_t* dq, bf16_t* dk, bf16_t* dv, int64_t stride, const Rows& q,
                    const Rows& k, const Rows& v, const Rows& go, const Rows& out, const float* lse,
                    float scale, float slope, const Backward& m) {
  const int64_t d = q.width, t = q.count;
  const amx::Session session;
  prepare(m, q, go, out);
  for (int64_t k0 = 0; k0 < t; k0 += kBlock) {
    k.pack(m.k, k0, true);
    v.pack(m.v, k0, true);
    k.pack_sum(m.k_sum, k0);
    std::fill_n(m.dk, kBlock * d, 0.0f);
    std::fill_n(m.dv, kBlock * d, 0.0f);
    for (int64_t q0 = k0; q0 < t; q0 += kBlock) {
      score_block(session, m.p, m.q + q0 * d, m.k, d, q0 - k0);
      score_block(session, m.ds, m.go + q0 * d, m.v, d, q0 - k0);
      backward_rows(m, q0, k0, t, lse, scale, slope);
      m.rounded.store(m.p);
      m.rounded.pack(m.p_turned, true);
      m.rounded.store(m.ds);
      m.rounded.pack(m.ds_turned, true);
      m.rounded.pack(m.ds_plain, false);
      add_block(session, m.dv, m.p_turned, m.go_sum + q0 * d, d);
      add_block(session, m.dk, m.ds_turned, m.q_sum + q0 * d, d);
      add_block(session, m.dq + q0 * d, m.ds_plain, m.k_sum, d);
    }
    const int64_t keys = std::min(kBlock, t - k0);
    store_rows(dk + k0 * stride, stride, m.dk, keys, d);
    store_rows(dv + k0 * stride, stride, m.dv, keys, d);
  }
  store_rows(dq, stride, m.dq, t, d);
}

}  // namespace

bool supports_amx_attention(ConstTensor qkv, const AttentionOptions& options) {
  return qkv.dtype() == DType::bf16 && AttentionShape(qkv, options).d % kDepth == 0;
}

int64_t attention_amx_bytes(const AttentionShape& shape) {
  Carver forward(nullptr), backward(nullptr);
  Forward::take(forward, shape.t, shape.d);
  Backward::take(backward, shape.t, shape.d);
  return std::max(forward.used(), backward.used());
}

void attention_forward_amx(Tensor out, Tensor lse, ConstTensor qkv, const AttentionOptions& options,
                           GemmContext& context) {
  const AttentionShape shape(qkv, options);
  const auto bytes = static_cast<size_t>(attention_amx_bytes(shape));
  for_query_ranges(shape, kBlock, context.threads,
                   [&](int64_t batch, int64_t head, int64_t begin, int64_t end, int worker) {
                     const auto part = [&](int64_t which) {
                       return Rows{qkv.as<bf16_t>() + shape.qkv_at(batch, 0, which, head),
                                   shape.qkv_stride(), shape.t, shape.d};
                     };
                     Carver memory(context.worker[static_cast<size_t>(worker)].bytes(bytes));
                     forward_piece(out.as<bf16_t>() + shape.out_at(batch, 0, head),
                                   shape.out_stride(), lse.as<float>() + shape.lse_at(batch, head),
                                   part(0), part(1), part(2), begin, end, shape.scale(),
                                   head_slope(options, head),
                                   Forward::take(memory, shape.t, shape.d));
                   });
}

void attention_backward_amx(Tensor dqkv, ConstTensor dout, ConstTensor qkv, ConstTensor out,
                            ConstTensor lse, const AttentionOptions& options,
                            GemmContext& context) {
  const AttentionShape shape(qkv, options);
  const auto bytes = static_cast<size_t>(attention_amx_bytes(shape));
  parallel_for(context.threads, shape.b * shape.h, [&](int64_t piece, int worker) {
    const int64_t head = piece % shape.h, batch = piece / shape.h;
    const auto part = [&](int64_t which) {
      return Rows{qkv.as<bf16_t>() + shape.qkv_at(batch, 0, which, head), shape.qkv_stride(),
                  shape.t, shape.d};
    };
    const auto output = [&](ConstTensor t) {
      return Rows{t.as<bf16_t>() + shape.out_at(batch, 0, head), shape.out_stride(), shape.t,
                  shape.d};
    };
    const auto gradient = [&](int64_t which) {
      return dqkv.as<bf16_t>() + shape.qkv_at(batch, 0, which, head);
    };
    Carver memory(context.worker[static_cast<size_t>(worker)].bytes(bytes));
    backward_piece(gradient(0), gradient(1), gradient(2), shape.qkv_stride(), part(0), part(1),
                   part(2), output(dout), output(out), lse.as<float>() + shape.lse_at(batch, head),
                   shape.scale(), head_slope(options, head),
                   Backward::take(memory, shape.t, shape.d));
  });
}

}  // namespace stretto
