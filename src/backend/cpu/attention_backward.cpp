// Causal attention, backward. A piece is one head of one sequence. It goes over key tiles, and for
// each over the query tiles that see it; probabilities are recomputed from lse. dk and dv of the
// tile and dq of the whole head are accumulated in f32, in a fixed order.
#include <algorithm>
#include <cmath>

#include "backend/cpu/attention.h"
#include "backend/cpu/attention_rows.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gemm_implementations.h"
#include "backend/cpu/linear_bias.h"
#include "backend/cpu/targets.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_backward.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/attention_tiles-inl.h"
#include "backend/cpu/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

constexpr int64_t kRows = kKeys;  // queries of one tile

// Turns scores into probabilities, and dp into ds = p (dp - delta) scale. `distance` is that of key
// 0.
void backward_row(float* p, float* dp, int64_t visible, float scale, float slope, float distance,
                  float lse, float delta) {
  const F32 d;
  const auto scale_v = hn::Set(d, scale), slope_v = hn::Set(d, slope);
  const auto lse_v = hn::Set(d, lse), delta_v = hn::Set(d, delta);
  for_lanes(
      d, static_cast<size_t>(visible), STRETTO_LANES {
        auto s = hn::Mul(load(d, static_cast<const float*>(p + i), lanes), scale_v);
        if (slope != 0) {
          const auto away = hn::Sub(hn::Set(d, distance - static_cast<float>(i)), hn::Iota(d, 0));
          s = hn::NegMulAdd(slope_v, away, s);
        }
        const auto probability = exp_vec(d, hn::Sub(s, lse_v));
        const auto change = hn::Sub(load(d, static_cast<const float*>(dp + i), lanes), delta_v);
        store(d, probability, p + i, lanes);
        store(d, hn::Mul(hn::Mul(probability, change), scale_v), dp + i, lanes);
      });
}

float row_dot(const float* a, const float* b, int64_t count) {
  const F32 d;
  auto sum = hn::Zero(d);
  for_lanes(
      d, static_cast<size_t>(count),
      STRETTO_LANES { sum = hn::MulAdd(load(d, a + i, lanes), load(d, b + i, lanes), sum); });
  return sum_of(d, sum);
}

int64_t backward_floats(const AttentionShape& shape) {
  const int64_t rows = shape.t + kTileRows;
  return 3 * rows * shape.d + rows + 6 * kKeys * shape.d + 2 * kRows * kScoreStride +
         8 * kTileSlack;
}

struct HeadBackward {
  const AttentionShape& shape;
  Tensor dqkv;
  ConstTensor dout, qkv, out;
  int64_t batch, head;
  const float* lse;  // of this head
  float slope;
  float *q, *go, *dq, *delta;                         // whole head: (T, D) three times, (T)
  float *k, *k_packed, *v_packed, *dk, *dv, *p, *ds;  // tiles

  void take(float* memory) {
    const auto next = [&memory](int64_t count) {
      float* taken = memory;
      memory += count + kTileSlack;
      return taken;
    };
    const int64_t d = shape.d, head_size = shape.t * d;
    q = next(head_size), go = next(head_size), dq = next(head_size), delta = next(shape.t);
    k = next(kKeys * d), k_packed = next(kKeys * d), v_packed = next(kKeys * d);
    dk = next(kKeys * d), dv = next(kKeys * d);
    p = next(kRows * kScoreStride), ds = next(kRows * kScoreStride);
  }

  void load_part(float* tile, int64_t part, int64_t row, int64_t count) const {
    load_tile(tile, qkv.data(), qkv.dtype(), shape.qkv_at(batch, row, part, head),
              shape.qkv_stride(), count, shape.d);
  }
  void store_part(const float* tile, int64_t part, int64_t row, int64_t count) const {
    store_tile(dqkv.data(), dqkv.dtype(), shape.qkv_at(batch, row, part, head), shape.qkv_stride(),
               tile, count, shape.d);
  }

  // delta = row sums of out * dout, which the softmax's gradient subtracts. dq serves as scratch
  // memory.
  void prepare() const {
    const int64_t d = shape.d, first = shape.out_at(batch, 0, head);
    load_part(q, 0, 0, shape.t);
    load_tile(go, dout.data(), dout.dtype(), first, shape.out_stride(), shape.t, d);
    load_tile(dq, out.data(), out.dtype(), first, shape.out_stride(), shape.t, d);
    for (int64_t r = 0; r < shape.t; ++r) delta[r] = row_dot(dq + r * d, go + r * d, d);
    std::fill_n(dq, shape.t * d, 0.0f);
  }

  // p and ds of one tile pair, zero beyond the diagonal.
  void probabilities(int64_t q0, int64_t k0, int64_t rows, int64_t keys) const {
    const int64_t d = shape.d, offset = q0 - k0;
    score_product(p, q + q0 * d, k_packed, rows, keys, d, offset);
    score_product(ds, go + q0 * d, v_packed, rows, keys, d, offset);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t visible = std::min(keys, r + offset + 1);
      float *pr = p + r * kScoreStride, *dr = ds + r * kScoreStride;
      backward_row(pr, dr, visible, shape.scale(), slope, static_cast<float>(r + offset),
                   lse[q0 + r], delta[q0 + r]);
      std::fill(pr + visible, pr + keys, 0.0f);
      std::fill(dr + visible, dr + keys, 0.0f);
    }
  }

  void run() const {
    const int64_t d = shape.d;
    prepare();
    for (int64_t k0 = 0; k0 < shape.t; k0 += kKeys) {
      const int64_t keys = std::min(kKeys, shape.t - k0);
      load_part(k, 2, k0, keys);  // the values pass through the memory of the keys
      pack_transposed(v_packed, k, keys, d);
      load_part(k, 1, k0, keys);
      pack_transposed(k_packed, k, keys, d);
      std::fill_n(dk, keys * d, 0.0f);
      std::fill_n(dv, keys * d, 0.0f);
      for (int64_t q0 = k0; q0 < shape.t; q0 += kRows) {
        const int64_t rows = std::min(kRows, shape.t - q0), offset = q0 - k0;
        probabilities(q0, k0, rows, keys);
        key_product(dv, p, go + q0 * d, rows, keys, d, offset);
        key_product(dk, ds, q + q0 * d, rows, keys, d, offset);
        value_product(dq + q0 * d, ds, k, rows, keys, d, offset);
      }
      store_part(dk, 1, k0, keys);
      store_part(dv, 2, k0, keys);
    }
    store_part(dq, 0, 0, shape.t);
  }
};

void backward_piece(Tensor dqkv, ConstTensor dout, ConstTensor qkv, ConstTensor out,
                    const float* lse, const AttentionShape& shape, int64_t batch, int64_t head,
                    float slope, float* memory) {
  HeadBackward work{shape, dqkv, dout, qkv, out, batch, head, lse, slope, {},
                    {},    {},   {},   {},  {},  {},    {},   {},  {},    {}};
  work.take(memory);
  work.run();
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(backward_piece);
HWY_EXPORT(backward_floats);
HWY_EXPORT(backward_row);
HWY_EXPORT(row_dot);

void attention_backward_row(float* p, float* dp, int64_t visible, float scale, float slope,
                            float distance, float lse, float delta) {
  HWY_DYNAMIC_DISPATCH(backward_row)(p, dp, visible, scale, slope, distance, lse, delta);
}

float attention_row_dot(const float* a, const float* b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(row_dot)(a, b, count);
}

int64_t attention_backward_floats(const AttentionShape& shape) {
  return HWY_DYNAMIC_DISPATCH(backward_floats)(shape);
}

void CpuBackend::do_attention_backward(Tensor dqkv, ConstTensor dout, ConstTensor qkv,
                                       ConstTensor out, ConstTensor lse,
                                       const AttentionOptions& options, Tensor dq_sums) {
  const AttentionShape shape(qkv, options);
  if (amx_is_native() && supports_amx_attention(qkv, options)) {
    attention_backward_amx(dqkv, dout, qkv, out, lse, options, gemm_);
  } else {
    parallel_for(threads_, shape.b * shape.h, [&](int64_t piece, int worker) {
      const int64_t head = piece % shape.h, batch = piece / shape.h;
      float* memory =
          gemm_.worker[static_cast<size_t>(worker)].floats(attention_backward_floats(shape));
      HWY_DYNAMIC_DISPATCH(backward_piece)
      (dqkv, dout, qkv, out, lse.as<float>() + shape.lse_at(batch, head), shape, batch, head,
       head_slope(options, head), memory);
    });
  }
  if (!dq_sums) return;
  const int64_t rows = shape.b * shape.t;
  column_sums(dq_sums, dqkv.view({rows, dqkv.count() / rows}), Grad::accumulate, gemm_);
}

}  // namespace stretto
#endif  // HWY_ONCE
