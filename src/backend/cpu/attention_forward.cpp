// Causal attention, forward. A piece is a range of queries of one head. It goes over the keys that
// they see in tiles and keeps a running maximum and sum per row, so T x T scores are never stored.
// The arithmetic of a row does not depend on the other rows of its piece.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention.h"
#include "backend/cpu/attention_rows.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/targets.h"
#include "base/ceil_div.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_forward.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/attention_tiles-inl.h"
#include "backend/cpu/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// One row of scores: scaled and biased, then exp relative to the new running maximum. Returns the
// factor by which earlier results of the row must be multiplied. `distance` is that of key 0 to the
// query.
float softmax_row(float* s, int64_t visible, float scale, float slope, float distance, float* max,
                  float* sum) {
  const F32 d;
  const size_t count = static_cast<size_t>(visible);
  auto most = hn::Set(d, *max);
  const auto scale_v = hn::Set(d, scale), slope_v = hn::Set(d, slope);
  for_lanes(
      d, count, STRETTO_LANES {
        auto v = hn::Mul(load(d, static_cast<const float*>(s + i), lanes), scale_v);
        if (slope != 0) {
          const auto away = hn::Sub(hn::Set(d, distance - static_cast<float>(i)), hn::Iota(d, 0));
          v = hn::NegMulAdd(slope_v, away, v);
        }
        store(d, v, s + i, lanes);
        if constexpr (std::is_same_v<decltype(lanes), Full>) {
          most = hn::Max(most, v);
        } else {
          most = hn::IfThenElse(hn::FirstN(d, lanes.count), hn::Max(most, v), most);
        }
      });
  const float next = hn::GetLane(hn::MaxOfLanes(d, most));
  const auto next_v = hn::Set(d, next);
  auto total = hn::Zero(d);
  for_lanes(
      d, count, STRETTO_LANES {
        const auto p =
            exp_vec(d, hn::Sub(load(d, static_cast<const float*>(s + i), lanes), next_v));
        store(d, p, s + i, lanes);
        total = hn::Add(total, only(d, p, lanes));
      });
  const float shrink = *max == next ? 1.0f : std::exp(*max - next);
  *sum = *sum * shrink + sum_of(d, total);
  *max = next;
  return shrink;
}

void scale_row(float* row, int64_t count, float factor) {
  const F32 d;
  const auto f = hn::Set(d, factor);
  for_lanes(
      d, static_cast<size_t>(count), STRETTO_LANES {
        store(d, hn::Mul(load(d, static_cast<const float*>(row + i), lanes), f), row + i, lanes);
      });
}

constexpr int64_t kQueries = 9 * kTileRows;  // queries of one tile

struct ForwardTile {
  float *q, *o, *s;
  float max[kQueries], sum[kQueries];
};

// Queries [q0, +rows) against keys [k0, +keys).
void attend(ForwardTile& tile, const float* k_packed, const float* v, int64_t rows, int64_t keys,
            int64_t d, int64_t offset, float scale, float slope) {
  score_product(tile.s, tile.q, k_packed, rows, keys, d, offset);
  const RowPanels panels(rows);
  for (int64_t i = 0; i < panels.panels; ++i) {
    const int64_t end = panels.begin(i) + panels.height(i);
    const int64_t filled = std::min(keys, end + offset);
    for (int64_t r = panels.begin(i); r < end; ++r) {
      const int64_t visible = std::clamp<int64_t>(r + offset + 1, 0, keys);
      float* s = tile.s + r * kScoreStride;
      if (visible > 0) {
        const float shrink = softmax_row(s, visible, scale, slope, static_cast<float>(r + offset),
                                         &tile.max[r], &tile.sum[r]);
        if (shrink != 1) scale_row(tile.o + r * d, d, shrink);
      }
      if (filled > visible) std::fill(s + visible, s + filled, 0.0f);
    }
  }
  value_product(tile.o, tile.s, v, rows, keys, d, offset);
}

int64_t forward_floats(const AttentionShape& shape) {
  const int64_t keys = round_up(shape.t, kKeys);
  return 2 * keys * shape.d + 2 * kQueries * shape.d + kQueries * kScoreStride + 2 * kTileSlack;
}

// Queries [begin, end) of one head. Keys and values up to `end` are loaded once.
void forward_piece(Tensor out, Tensor lse, ConstTensor qkv, const AttentionShape& shape,
                   int64_t batch, int64_t head, float slope, int64_t begin, int64_t end,
                   float* memory) {
  const int64_t d = shape.d, all = round_up(shape.t, kKeys);
  ForwardTile tile;
  float* k_packed = memory;
  float* v = k_packed + all * d;
  tile.q = v + all * d + kTileSlack;
  tile.o = tile.q + kQueries * d;
  tile.s = tile.o + kQueries * d;
  const auto load_part = [&](float* to, int64_t part, int64_t row, int64_t count) {
    load_tile(to, qkv.data(), qkv.dtype(), shape.qkv_at(batch, row, part, head), shape.qkv_stride(),
              count, d);
  };
  for (int64_t k0 = 0; k0 < end; k0 += kKeys) {
    const int64_t keys = std::min(kKeys, end - k0);
    load_part(v + k0 * d, 1, k0, keys);  // first a dense tile, which the values below overwrite
    pack_transposed(k_packed + k0 * d, v + k0 * d, keys, d);
    load_part(v + k0 * d, 2, k0, keys);
  }
  for (int64_t q0 = begin; q0 < end; q0 += kQueries) {
    const int64_t rows = std::min(kQueries, end - q0);
    load_part(tile.q, 0, q0, rows);
    std::fill_n(tile.o, rows * d, 0.0f);
    std::fill_n(tile.sum, rows, 0.0f);
    std::fill_n(tile.max, rows, -std::numeric_limits<float>::infinity());
    for (int64_t k0 = 0; k0 < q0 + rows; k0 += kKeys) {
      attend(tile, k_packed + k0 * d, v + k0 * d, rows, std::min(kKeys, end - k0), d, q0 - k0,
             shape.scale(), slope);
    }
    for (int64_t r = 0; r < rows; ++r) {
      lse.as<float>()[shape.lse_at(batch, head) + q0 + r] = tile.max[r] + std::log(tile.sum[r]);
      scale_row(tile.o + r * d, d, 1 / tile.sum[r]);
    }
    store_tile(out.data(), out.dtype(), shape.out_at(batch, q0, head), shape.out_stride(), tile.o,
               rows, d);
  }
}

int64_t query_tile() { return kQueries; }

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(forward_piece);
HWY_EXPORT(forward_floats);
HWY_EXPORT(query_tile);
HWY_EXPORT(softmax_row);
HWY_EXPORT(scale_row);

float attention_softmax_row(float* s, int64_t visible, float scale, float slope, float distance,
                            float* max, float* sum) {
  return HWY_DYNAMIC_DISPATCH(softmax_row)(s, visible, scale, slope, distance, max, sum);
}

void attention_scale_row(float* row, int64_t count, float factor) {
  HWY_DYNAMIC_DISPATCH(scale_row)(row, count, factor);
}

int64_t attention_forward_floats(const AttentionShape& shape) {
  return HWY_DYNAMIC_DISPATCH(forward_floats)(shape);
}

void CpuBackend::do_attention_forward(Tensor out, Tensor lse, ConstTensor qkv,
                                      const AttentionOptions& options) {
  if (amx_is_native() && supports_amx_attention(qkv, options)) {
    attention_forward_amx(out, lse, qkv, options, gemm_);
    return;
  }
  const AttentionShape shape(qkv, options);
  const int64_t tile = HWY_DYNAMIC_DISPATCH(query_tile)();
  for_query_ranges(
      shape, tile, threads_,
      [&](int64_t batch, int64_t head, int64_t begin, int64_t end, int worker) {
        float* memory =
            gemm_.worker[static_cast<size_t>(worker)].floats(attention_forward_floats(shape));
        HWY_DYNAMIC_DISPATCH(forward_piece)
        (out, lse, qkv, shape, batch, head, head_slope(options, head), begin, end, memory);
      });
}

}  // namespace stretto
#endif  // HWY_ONCE
