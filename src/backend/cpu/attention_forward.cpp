// Causal attention, forward. A piece is a block of queries of one head; it walks over the keys at
// or before it in tiles and keeps a running maximum and sum per row, so T x T is never stored.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention.h"
#include "backend/cpu/attention_tiles.h"
#include "backend/cpu/cpu_backend.h"

namespace stretto {
namespace {

constexpr int64_t kQueries = 64;
constexpr int64_t kKeys = 64;

// One row of scores: turns them into probabilities relative to the new maximum, returns their sum.
float softmax_row(float* s, int64_t count, float max) {
  float sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    s[j] = std::exp(s[j] - max);
    sum += s[j];
  }
  return sum;
}

struct QueryBlock {
  float *q, *k, *v, *s, *o;
  float max[kQueries], sum[kQueries];
};

void attend(QueryBlock& block, int64_t q0, int64_t k0, int64_t rows, int64_t keys, int64_t d,
            float scale, float slope) {
  tile_nt(block.s, kKeys, block.q, d, block.k, d, rows, keys, d, false);
  for (int64_t r = 0; r < rows; ++r) {
    float* s = block.s + r * kKeys;
    const int64_t visible = std::clamp<int64_t>(q0 + r - k0 + 1, 0, keys);
    float max = block.max[r];
    for (int64_t j = 0; j < visible; ++j) {
      s[j] = s[j] * scale - slope * static_cast<float>(q0 + r - k0 - j);
      max = std::max(max, s[j]);
    }
    std::fill(s + visible, s + keys, 0.0f);
    if (visible == 0) continue;
    const float shrink = std::exp(block.max[r] - max);
    block.sum[r] = block.sum[r] * shrink + softmax_row(s, visible, max);
    block.max[r] = max;
    for (int64_t i = 0; i < d; ++i) block.o[r * d + i] *= shrink;
  }
  tile_nn(block.o, d, block.s, kKeys, block.v, d, rows, d, keys, true);
}

}  // namespace

void CpuBackend::do_attention_forward(Tensor out, Tensor lse, ConstTensor qkv,
                                      const AttentionOptions& options) {
  const AttentionShape shape(qkv, options);
  const int64_t blocks = (shape.t + kQueries - 1) / kQueries;
  const int64_t d = shape.d;
  parallel_for(threads_, shape.b * shape.h * blocks, [&](int64_t piece, int worker) {
    const int64_t q0 = piece % blocks * kQueries;
    const int64_t head = piece / blocks % shape.h, batch = piece / blocks / shape.h;
    const int64_t rows = std::min(kQueries, shape.t - q0);
    QueryBlock block;
    block.q = gemm_.worker[static_cast<size_t>(worker)].floats(2 * kQueries * d + 2 * kKeys * d +
                                                               kQueries * kKeys);
    block.o = block.q + kQueries * d;
    block.k = block.o + kQueries * d;
    block.v = block.k + kKeys * d;
    block.s = block.v + kKeys * d;
    std::fill_n(block.max, rows, -std::numeric_limits<float>::infinity());
    std::fill_n(block.sum, rows, 0.0f);
    std::fill_n(block.o, rows * d, 0.0f);
    const auto load = [&](float* tile, int64_t part, int64_t row, int64_t count) {
      load_tile(tile, qkv.data(), qkv.dtype(), shape.qkv_at(batch, row, part, head),
                shape.qkv_stride(), count, d);
    };
    load(block.q, 0, q0, rows);
    for (int64_t k0 = 0; k0 < q0 + rows; k0 += kKeys) {
      const int64_t keys = std::min(kKeys, shape.t - k0);
      load(block.k, 1, k0, keys);
      load(block.v, 2, k0, keys);
      attend(block, q0, k0, rows, keys, d, shape.scale(), head_slope(options, head));
    }
    for (int64_t r = 0; r < rows; ++r) {
      lse.as<float>()[shape.lse_at(batch, head) + q0 + r] = block.max[r] + std::log(block.sum[r]);
      for (int64_t i = 0; i < d; ++i) block.o[r * d + i] /= block.sum[r];
    }
    store_tile(out.data(), out.dtype(), shape.out_at(batch, q0, head), shape.out_stride(), block.o,
               rows, d);
  });
}

}  // namespace stretto
