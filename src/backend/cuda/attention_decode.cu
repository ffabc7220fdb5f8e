// Attention of one new token per sequence over the keys and values kept so far. One block per
// (sequence, head): it appends the new row, then its warps share the keys and merge in warp order.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"

namespace stretto::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMaxColumns = 256;
constexpr int kOwned = kMaxColumns / 32;

template <typename T>
struct Params {
  T* out;
  T* k_cache;
  T* v_cache;
  const T* qkv;
  int heads, columns, T_max, position;
  float scale;
  float slopes[128];
};

template <typename T>
__global__ void __launch_bounds__(32 * kWarps) decode_kernel(const __grid_constant__ Params<T> p) {
  __shared__ float q[kMaxColumns], tops[kWarps], sums[kWarps], outs[kWarps][kMaxColumns];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t head = blockIdx.x, batch = blockIdx.y;
  const int64_t width = int64_t{p.heads} * p.columns;
  const T* fresh = p.qkv + batch * 3 * width + head * p.columns;
  T* k = p.k_cache + batch * p.T_max * width + head * p.columns;
  T* v = p.v_cache + batch * p.T_max * width + head * p.columns;
  for (int c = threadIdx.x; c < p.columns; c += blockDim.x) {
    q[c] = as_float(fresh[c]);
    k[p.position * width + c] = fresh[width + c];
    v[p.position * width + c] = fresh[2 * width + c];
  }
  __syncthreads();
  float o[kOwned] = {}, top = -INFINITY, sum = 0;
  for (int k0 = warp * 32; k0 <= p.position; k0 += 32 * kWarps) {
    const int key = k0 + lane;
    float score = -INFINITY;
    if (key <= p.position) {
      float s = 0;
#pragma unroll 8
      for (int c = 0; c < p.columns; ++c) s = fmaf(q[c], as_float(k[key * width + c]), s);
      score = s * p.scale - p.slopes[head] * (p.position - key);
    }
    const float new_top = fmaxf(top, warp_max(score));
    const float shrink = __expf(top - new_top), prob = __expf(score - new_top);
    top = new_top;
    sum = sum * shrink + warp_sum(prob);
#pragma unroll
    for (int i = 0; i < kOwned; ++i) o[i] *= shrink;
    const int count = min(32, p.position + 1 - k0);
    for (int j = 0; j < count; ++j) {
      const float w = __shfl_sync(0xffffffffu, prob, j);
#pragma unroll
      for (int i = 0; i < kOwned; ++i) {
        const int c = i * 32 + lane;
        if (c < p.columns) o[i] = fmaf(w, as_float(v[(k0 + j) * width + c]), o[i]);
      }
    }
  }
  if (lane == 0) {
    tops[warp] = top;
    sums[warp] = sum;
  }
#pragma unroll
  for (int i = 0; i < kOwned; ++i) {
    if (i * 32 + lane < p.columns) outs[warp][i * 32 + lane] = o[i];
  }
  __syncthreads();
  float all_top = -INFINITY, all_sum = 0;
  for (int w = 0; w < kWarps; ++w) all_top = fmaxf(all_top, tops[w]);
  for (int w = 0; w < kWarps; ++w) all_sum += sums[w] * __expf(tops[w] - all_top);
  for (int c = threadIdx.x; c < p.columns; c += blockDim.x) {
    float total = 0;
    for (int w = 0; w < kWarps; ++w) total += outs[w][c] * __expf(tops[w] - all_top);
    p.out[batch * width + head * p.columns + c] = from_float<T>(total / all_sum);
  }
}

}  // namespace

void CudaBackend::do_attention_decode(Tensor out, Tensor k_cache, Tensor v_cache, ConstTensor qkv,
                                      int64_t position, const AttentionOptions& options) {
  const int64_t B = qkv.shape()[0], H = options.heads;
  if (B == 0) return;
  const int64_t D = out.count() / (B * H);
  STRETTO_CHECK(D <= kMaxColumns && H <= 128, "{} heads of size {}", H, D);
  const AttentionGeometry geometry{qkv.dtype(),
                                   B,
                                   1,
                                   H,
                                   D,
                                   options.alibi,
                                   options.first_head,
                                   options.total_heads > 0 ? options.total_heads : H};
  with_float_type(qkv.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Params<T> p{};
    p.out = data_of<T>(out);
    p.k_cache = data_of<T>(k_cache);
    p.v_cache = data_of<T>(v_cache);
    p.qkv = data_of<T>(qkv);
    p.heads = static_cast<int>(H);
    p.columns = static_cast<int>(D);
    p.T_max = static_cast<int>(k_cache.shape()[1]);
    p.position = static_cast<int>(position);
    p.scale = attention_scale(geometry);
    for (int64_t h = 0; h < H; ++h) p.slopes[h] = attention_slope(geometry, h);
    decode_kernel<T>
        <<<dim3(static_cast<unsigned>(H), static_cast<unsigned>(B)), 32 * kWarps, 0, stream()>>>(p);
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
