// Attention of one new token per sequence over its cached keys and values.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/attention.h"
#include "backend/cpu/attention_tiles.h"
#include "backend/cpu/cpu_backend.h"

namespace stretto {

void CpuBackend::do_attention_decode(Tensor out, Tensor k_cache, Tensor v_cache, ConstTensor qkv,
                                     int64_t position, const AttentionOptions& options) {
  const AttentionShape shape(qkv, options);  // t == 1
  const int64_t d = shape.d, keys = position + 1, stride = shape.h * d;
  const int64_t most = k_cache.shape()[1];
  const size_t size = dtype_size(qkv.dtype());
  parallel_for(threads_, shape.b * shape.h, [&](int64_t piece, int worker) {
    const int64_t head = piece % shape.h, batch = piece / shape.h;
    const int64_t first = batch * most * stride + head * d;  // row 0 of this head in the caches
    const auto append = [&](Tensor cache, int64_t part) {
      std::memcpy(cache.as<char>() + static_cast<size_t>(first + position * stride) * size,
                  qkv.as<char>() + static_cast<size_t>(shape.qkv_at(batch, 0, part, head)) * size,
                  static_cast<size_t>(d) * size);
    };
    append(k_cache, 1);
    append(v_cache, 2);
    float* q = gemm_.worker[static_cast<size_t>(worker)].floats(2 * d + keys + keys * d);
    float *o = q + d, *s = o + d, *rows = s + keys;
    load_tile(q, qkv.data(), qkv.dtype(), shape.qkv_at(batch, 0, 0, head), d, 1, d);
    load_tile(rows, k_cache.data(), k_cache.dtype(), first, stride, keys, d);
    tile_nt(s, keys, q, d, rows, d, 1, keys, d, false);
    const float slope = head_slope(options, head), scale = shape.scale();
    for (int64_t j = 0; j < keys; ++j)
      s[j] = s[j] * scale - slope * static_cast<float>(position - j);
    const float max = *std::max_element(s, s + keys);
    float sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      s[j] = std::exp(s[j] - max);
      sum += s[j];
    }
    for (int64_t j = 0; j < keys; ++j) s[j] /= sum;
    load_tile(rows, v_cache.data(), v_cache.dtype(), first, stride, keys, d);
    tile_nn(o, d, s, keys, rows, d, 1, d, keys, false);
    store_tile(out.data(), out.dtype(), shape.out_at(batch, 0, head), stride, o, 1, d);
  });
}

}  // namespace stretto
