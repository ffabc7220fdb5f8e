// Causal attention, backward. A piece is one head of one sequence: it walks over key tiles, and for
// each over the query tiles at or after it; probabilities come back from lse. dk and dv of the tile
// and dq of the whole head accumulate in f32, in a fixed order.
#include <algorithm>
#include <cmath>

#include "backend/cpu/attention.h"
#include "backend/cpu/attention_tiles.h"
#include "backend/cpu/cpu_backend.h"

namespace stretto {
namespace {

constexpr int64_t kTile = 64;

struct HeadBackward {
  const AttentionShape& shape;
  Tensor dqkv;
  ConstTensor dout, qkv, out;
  int64_t batch, head;
  const float* lse;  // of this head
  float slope;
  float *q, *k, *v, *o, *p, *ds, *dk, *dv;  // tiles
  float *dq, *delta;                        // whole head: (T, D), (T)

  void load(float* tile, int64_t part, int64_t row, int64_t count) const {
    load_tile(tile, qkv.data(), qkv.dtype(), shape.qkv_at(batch, row, part, head),
              shape.qkv_stride(), count, shape.d);
  }
  void store(const float* tile, int64_t part, int64_t row, int64_t count) const {
    store_tile(dqkv.data(), dqkv.dtype(), shape.qkv_at(batch, row, part, head), shape.qkv_stride(),
               tile, count, shape.d);
  }
  void load_rows(float* tile, ConstTensor t, int64_t row, int64_t count) const {
    load_tile(tile, t.data(), t.dtype(), shape.out_at(batch, row, head), shape.out_stride(), count,
              shape.d);
  }

  // delta = row sums of out * dout: what the softmax subtracts.
  void find_delta() const {
    const int64_t d = shape.d;
    for (int64_t q0 = 0; q0 < shape.t; q0 += kTile) {
      const int64_t rows = std::min(kTile, shape.t - q0);
      load_rows(q, out, q0, rows);
      load_rows(o, dout, q0, rows);
      for (int64_t r = 0; r < rows; ++r) {
        float sum = 0;
        for (int64_t i = 0; i < d; ++i) sum += q[r * d + i] * o[r * d + i];
        delta[q0 + r] = sum;
      }
    }
  }

  // p and ds of one tile pair; entries above the diagonal are zero.
  void probabilities(int64_t q0, int64_t k0, int64_t rows, int64_t keys) const {
    const int64_t d = shape.d;
    const float scale = shape.scale();
    tile_nt(p, kTile, q, d, k, d, rows, keys, d, false);
    tile_nt(ds, kTile, o, d, v, d, rows, keys, d, false);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t visible = std::clamp<int64_t>(q0 + r - k0 + 1, 0, keys);
      float* pr = p + r * kTile;
      float* dr = ds + r * kTile;
      for (int64_t j = 0; j < visible; ++j) {
        const float s = pr[j] * scale - slope * static_cast<float>(q0 + r - k0 - j);
        pr[j] = std::exp(s - lse[q0 + r]);
        dr[j] = pr[j] * (dr[j] - delta[q0 + r]) * scale;
      }
      std::fill(pr + visible, pr + keys, 0.0f);
      std::fill(dr + visible, dr + keys, 0.0f);
    }
  }

  void run() const {
    const int64_t d = shape.d;
    find_delta();
    std::fill_n(dq, shape.t * d, 0.0f);
    for (int64_t k0 = 0; k0 < shape.t; k0 += kTile) {
      const int64_t keys = std::min(kTile, shape.t - k0);
      load(k, 1, k0, keys);
      load(v, 2, k0, keys);
      std::fill_n(dk, keys * d, 0.0f);
      std::fill_n(dv, keys * d, 0.0f);
      for (int64_t q0 = k0; q0 < shape.t; q0 += kTile) {
        const int64_t rows = std::min(kTile, shape.t - q0);
        load(q, 0, q0, rows);
        load_rows(o, dout, q0, rows);
        probabilities(q0, k0, rows, keys);
        tile_tn(dv, d, p, kTile, o, d, keys, d, rows, true);
        tile_tn(dk, d, ds, kTile, q, d, keys, d, rows, true);
        tile_nn(dq + q0 * d, d, ds, kTile, k, d, rows, d, keys, true);
      }
      store(dk, 1, k0, keys);
      store(dv, 2, k0, keys);
    }
    store(dq, 0, 0, shape.t);
  }
};

}  // namespace

void CpuBackend::do_attention_backward(Tensor dqkv, ConstTensor dout, ConstTensor qkv,
                                       ConstTensor out, ConstTensor lse,
                                       const AttentionOptions& options) {
  const AttentionShape shape(qkv, options);
  const int64_t d = shape.d;
  parallel_for(threads_, shape.b * shape.h, [&](int64_t piece, int worker) {
    const int64_t head = piece % shape.h, batch = piece / shape.h;
    float* at = gemm_.worker[static_cast<size_t>(worker)].floats(6 * kTile * d + 2 * kTile * kTile +
                                                                 shape.t * d + shape.t);
    const auto take = [&at](int64_t count) {
      float* taken = at;
      at += count;
      return taken;
    };
    HeadBackward work{shape,
                      dqkv,
                      dout,
                      qkv,
                      out,
                      batch,
                      head,
                      lse.as<float>() + shape.lse_at(batch, head),
                      head_slope(options, head),
                      take(kTile * d),
                      take(kTile * d),
                      take(kTile * d),
                      take(kTile * d),
                      take(kTile * kTile),
                      take(kTile * kTile),
                      take(kTile * d),
                      take(kTile * d),
                      take(shape.t * d),
                      take(shape.t)};
    work.run();
  });
}

}  // namespace stretto
