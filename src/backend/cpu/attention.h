// What the attention kernels share: where a head's rows are in qkv (B, T, 3, H, D), ALiBi slopes,
// tile sizes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/gemm.h"
#include "base/ceil_div.h"
#include "base/parallel_for.h"

namespace stretto {

struct AttentionShape {
  int64_t b, t, h, d;

  AttentionShape(ConstTensor qkv, const AttentionOptions& options)
      : b(qkv.shape()[0]),
        t(qkv.shape()[1]),
        h(options.heads),
        d(b * t == 0 ? 0 : qkv.count() / (b * t * 3 * h)) {}

  float scale() const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(d))); }
  // Element index of row `row` of q (part 0), k (1) or v (2) of one head; rows are qkv_stride
  // apart.
  int64_t qkv_at(int64_t batch, int64_t row, int64_t part, int64_t head) const {
    return ((batch * t + row) * 3 + part) * h * d + head * d;
  }
  int64_t qkv_stride() const { return 3 * h * d; }
  int64_t out_at(int64_t batch, int64_t row, int64_t head) const {
    return (batch * t + row) * h * d + head * d;
  }
  int64_t out_stride() const { return h * d; }
  int64_t lse_at(int64_t batch, int64_t head) const { return (batch * h + head) * t; }
};

// Calls piece(batch, head, begin, end, worker) until all queries of all heads are done. A whole
// head per piece packs its keys only once; if there are few heads, pieces are ranges of query tiles
// instead. Later ranges see more keys, so they come first.
template <typename Piece>
void for_query_ranges(const AttentionShape& shape, int64_t tile, int threads, const Piece& piece) {
  const int64_t heads = shape.b * shape.h;
  if (heads == 0) return;
  const int64_t tiles = ceil_div(shape.t, tile);
  const int64_t wanted = threads == 1 ? 1 : ceil_div(int64_t{4} * threads, heads);
  const int64_t ranges = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, tiles));
  parallel_for(threads, heads * ranges, [&](int64_t i, int worker) {
    const int64_t range = ranges - 1 - i / heads;
    piece(i / shape.h % shape.b, i % shape.h, range * tiles / ranges * tile,
          std::min(shape.t, (range + 1) * tiles / ranges * tile), worker);
  });
}

// Floats of scratch memory that a piece needs.
int64_t attention_forward_floats(const AttentionShape& shape);
int64_t attention_backward_floats(const AttentionShape& shape);
int64_t attention_amx_bytes(const AttentionShape& shape);

// Whether AMX tiles can do it: bf16, and head sizes that are multiples of 32.
bool supports_amx_attention(ConstTensor qkv, const AttentionOptions& options);
void attention_forward_amx(Tensor out, Tensor lse, ConstTensor qkv, const AttentionOptions& options,
                           GemmContext& context);
void attention_backward_amx(Tensor dqkv, ConstTensor dout, ConstTensor qkv, ConstTensor out,
                            ConstTensor lse, const AttentionOptions& options, GemmContext& context);

// Slope of a head: a geometric series from 2^(-8/n) for n heads, n a power of two; otherwise the
// series of the next smaller power of two, then every other member of the series of twice that.
inline double alibi_slope(int64_t head, int64_t heads) {
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  const double step = 8.0 / static_cast<double>(power);
  if (head < power) return std::exp2(-step * static_cast<double>(head + 1));
  return std::exp2(-step / 2 * static_cast<double>(2 * (head - power) + 1));
}

inline float head_slope(const AttentionOptions& options, int64_t head) {
  if (!options.alibi) return 0;
  const int64_t total = options.total_heads > 0 ? options.total_heads : options.heads;
  return static_cast<float>(alibi_slope(options.first_head + head, total));
}

}  // namespace stretto
