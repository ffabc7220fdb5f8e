// Attention of one new token per sequence to its cached keys and values. Reading the caches limits
// its speed, so each element is read once.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/attention.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/targets.h"

// Highway includes this file once per instruction set, from here.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_decode.cpp"
#include "hwy/foreach_target.h"
#include "backend/cpu/simd_io-inl.h"
#include "backend/cpu/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace stretto {
namespace HWY_NAMESPACE {

// out (d) = softmax(scale q k^T - slope * distance) v, for `keys` rows `stride` elements apart.
// `memory` holds 2 d + keys floats.
void decode_head(void* out, const void* q, const void* k, const void* v, DType type, int64_t keys,
                 int64_t stride, int64_t width, float scale, float slope, float* memory) {
  const F32 d;
  const size_t count = static_cast<size_t>(width), all = static_cast<size_t>(keys);
  float *query = memory, *sums = query + width, *p = sums + width;
  with_float_type(type, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    const T* from = static_cast<const T*>(q);
    for_lanes(
        d, count, STRETTO_LANES {
          store(d, hn::Mul(load(d, from + i, lanes), hn::Set(d, scale)), query + i, lanes);
          store(d, hn::Zero(d), sums + i, lanes);
        });
    float max = -INFINITY;
    for (int64_t j = 0; j < keys; ++j) {
      const T* row = static_cast<const T*>(k) + j * stride;
      auto sum = hn::Zero(d);
      for_lanes(
          d, count, STRETTO_LANES {
            const auto x = load(d, static_cast<const float*>(query + i), lanes);
            sum = hn::MulAdd(x, load(d, row + i, lanes), sum);
          });
      p[j] = sum_of(d, sum) - slope * static_cast<float>(keys - 1 - j);
      max = std::max(max, p[j]);
    }
    auto total = hn::Zero(d);
    for_lanes(
        d, all, STRETTO_LANES {
          const auto x = load(d, static_cast<const float*>(p + i), lanes);
          const auto e = exp_vec(d, hn::Sub(x, hn::Set(d, max)));
          store(d, e, p + i, lanes);
          total = hn::Add(total, only(d, e, lanes));
        });
    for (int64_t j = 0; j < keys; ++j) {
      const T* row = static_cast<const T*>(v) + j * stride;
      const auto weight = hn::Set(d, p[j]);
      for_lanes(
          d, count, STRETTO_LANES {
            const auto sum = load(d, static_cast<const float*>(sums + i), lanes);
            store(d, hn::MulAdd(weight, load(d, row + i, lanes), sum), sums + i, lanes);
          });
    }
    const auto inverse = hn::Set(d, 1 / sum_of(d, total));
    for_lanes(
        d, count, STRETTO_LANES {
          const auto sum = load(d, static_cast<const float*>(sums + i), lanes);
          store(d, hn::Mul(sum, inverse), static_cast<T*>(out) + i, lanes);
        });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace stretto
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto {

HWY_EXPORT(decode_head);

void CpuBackend::do_attention_decode(Tensor out, Tensor k_cache, Tensor v_cache, ConstTensor qkv,
                                     int64_t position, const AttentionOptions& options) {
  const AttentionShape shape(qkv, options);  // t == 1
  const int64_t d = shape.d, keys = position + 1, stride = shape.h * d;
  const int64_t most = k_cache.shape()[1];
  const size_t size = dtype_size(qkv.dtype());
  parallel_for(threads_, shape.b * shape.h, [&](int64_t piece, int worker) {
    const int64_t head = piece % shape.h, batch = piece / shape.h;
    const auto at = [size](const void* data, int64_t index) {
      return static_cast<const char*>(data) + static_cast<size_t>(index) * size;
    };
    const int64_t first = batch * most * stride + head * d;  // row 0 of this head in the caches
    const auto append = [&](Tensor cache, int64_t part) {
      std::memcpy(const_cast<char*>(at(cache.data(), first + position * stride)),
                  at(qkv.data(), shape.qkv_at(batch, 0, part, head)),
                  static_cast<size_t>(d) * size);
    };
    append(k_cache, 1);
    append(v_cache, 2);
    HWY_DYNAMIC_DISPATCH(decode_head)
    (const_cast<char*>(at(out.data(), shape.out_at(batch, 0, head))),
     at(qkv.data(), shape.qkv_at(batch, 0, 0, head)), at(k_cache.data(), first),
     at(v_cache.data(), first), qkv.dtype(), keys, stride, d, shape.scale(),
     head_slope(options, head), gemm_.worker[static_cast<size_t>(worker)].floats(2 * d + keys));
  });
}

}  // namespace stretto
#endif  // HWY_ONCE
