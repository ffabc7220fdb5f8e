// Attention for every type (f32 above all) and head sizes up to 256, without tensor cores and
// without a T x T matrix: one warp per row. Its lanes first own 32 keys (one score each), then the
// columns of the output. Slow and simple; what f32 training and odd shapes use.
#include "account/gpu_limits.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/lanes.h"

namespace stretto::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxColumns = kGpuHeadSize;
constexpr int kOwned = kMaxColumns / 32;  // columns per lane

template <typename T>
struct Params {
  T* out;
  T* dqkv;
  float* lse;
  const float* delta;
  const T* qkv;
  const T* dout;
  int T_len, heads, columns;
  float scale;
  float slopes[128];

  __device__ int64_t stride() const { return int64_t{3} * heads * columns; }
  __device__ int64_t part(int which) const {
    return int64_t(blockIdx.z) * T_len * stride() + (int64_t{which} * heads + blockIdx.y) * columns;
  }
  __device__ int64_t out_row(int row) const {
    return ((int64_t(blockIdx.z) * T_len + row) * heads + blockIdx.y) * columns;
  }
  __device__ int64_t stat(int row) const {
    return (int64_t(blockIdx.z) * heads + blockIdx.y) * T_len + row;
  }
};

// row (shared, f32) . p
template <typename T>
__device__ __forceinline__ float dot(const float* row, const T* p, int columns) {
  float sum = 0;
#pragma unroll 8
  for (int c = 0; c < columns; ++c) sum = fmaf(row[c], as_float(p[c]), sum);
  return sum;
}

template <typename T>
__device__ __forceinline__ void fetch(float* row, const T* p, int columns) {
  for (int c = threadIdx.x % 32; c < columns; c += 32) row[c] = as_float(p[c]);
  __syncwarp();
}

// acc += sum over the 32 lanes of weight * row(lane), rows `stride` apart; `count` rows exist.
template <typename T>
__device__ __forceinline__ void add_rows(float (&acc)[kOwned], float weight, const T* rows,
                                         int64_t stride, int count, int columns) {
  for (int j = 0; j < count; ++j) {
    const float w = __shfl_sync(0xffffffffu, weight, j);
#pragma unroll
    for (int i = 0; i < kOwned; ++i) {
      const int c = i * 32 + threadIdx.x % 32;
      if (c < columns) acc[i] = fmaf(w, as_float(rows[j * stride + c]), acc[i]);
    }
  }
}

template <typename T>
__device__ __forceinline__ void store_row(T* p, const float (&acc)[kOwned], float scale,
                                          int columns) {
#pragma unroll
  for (int i = 0; i < kOwned; ++i) {
    const int c = i * 32 + threadIdx.x % 32;
    if (c < columns) p[c] = from_float<T>(acc[i] * scale);
  }
}

template <typename T>
__global__ void __launch_bounds__(32 * kWarps) forward_kernel(const __grid_constant__ Params<T> p) {
  __shared__ float rows[kWarps][kMaxColumns];
  float* q = rows[threadIdx.x / 32];
  const int lane = threadIdx.x % 32, row = blockIdx.x * kWarps + threadIdx.x / 32;
  if (row >= p.T_len) return;
  const T* k = p.qkv + p.part(1);
  const T* v = p.qkv + p.part(2);
  fetch(q, p.qkv + p.part(0) + row * p.stride(), p.columns);
  float o[kOwned] = {}, top = -INFINITY, sum = 0;
  for (int k0 = 0; k0 <= row; k0 += 32) {
    const int key = k0 + lane;
    float score = -INFINITY;
    if (key <= row) {
      score =
          dot(q, k + key * p.stride(), p.columns) * p.scale - p.slopes[blockIdx.y] * (row - key);
    }
    const float new_top = fmaxf(top, warp_max(score));
    const float shrink = __expf(top - new_top), prob = __expf(score - new_top);
    top = new_top;
    sum = sum * shrink + warp_sum(prob);
#pragma unroll
    for (int i = 0; i < kOwned; ++i) o[i] *= shrink;
    add_rows(o, prob, v + k0 * p.stride(), p.stride(), min(32, row + 1 - k0), p.columns);
  }
  store_row(p.out + p.out_row(row), o, 1.0f / sum, p.columns);
  if (lane == 0) p.lse[p.stat(row)] = top + logf(sum);
}

template <typename T>
__global__ void __launch_bounds__(32 * kWarps) dq_kernel(const __grid_constant__ Params<T> p) {
  __shared__ float rows[kWarps][2][kMaxColumns];
  float* q = rows[threadIdx.x / 32][0];
  float* dout = rows[threadIdx.x / 32][1];
  const int lane = threadIdx.x % 32, row = blockIdx.x * kWarps + threadIdx.x / 32;
  if (row >= p.T_len) return;
  const T* k = p.qkv + p.part(1);
  const T* v = p.qkv + p.part(2);
  fetch(q, p.qkv + p.part(0) + row * p.stride(), p.columns);
  fetch(dout, p.dout + p.out_row(row), p.columns);
  const float lse = p.lse[p.stat(row)], delta = p.delta[p.stat(row)];
  float dq[kOwned] = {};
  for (int k0 = 0; k0 <= row; k0 += 32) {
    const int key = k0 + lane;
    float ds = 0;
    if (key <= row) {
      const float score =
          dot(q, k + key * p.stride(), p.columns) * p.scale - p.slopes[blockIdx.y] * (row - key);
      ds = __expf(score - lse) * (dot(dout, v + key * p.stride(), p.columns) - delta);
    }
    add_rows(dq, ds, k + k0 * p.stride(), p.stride(), min(32, row + 1 - k0), p.columns);
  }
  store_row(p.dqkv + p.part(0) + row * p.stride(), dq, p.scale, p.columns);
}

template <typename T>
__global__ void __launch_bounds__(32 * kWarps) dkv_kernel(const __grid_constant__ Params<T> p) {
  __shared__ float rows[kWarps][2][kMaxColumns];
  float* k = rows[threadIdx.x / 32][0];
  float* v = rows[threadIdx.x / 32][1];
  const int lane = threadIdx.x % 32, key = blockIdx.x * kWarps + threadIdx.x / 32;
  if (key >= p.T_len) return;
  fetch(k, p.qkv + p.part(1) + key * p.stride(), p.columns);
  fetch(v, p.qkv + p.part(2) + key * p.stride(), p.columns);
  const T* q = p.qkv + p.part(0);
  const int64_t out_stride = int64_t{p.heads} * p.columns;
  float dk[kOwned] = {}, dv[kOwned] = {};
  for (int q0 = key; q0 < p.T_len; q0 += 32) {
    const int row = q0 + lane;
    float prob = 0, ds = 0;
    if (row < p.T_len) {
      const float score =
          dot(k, q + row * p.stride(), p.columns) * p.scale - p.slopes[blockIdx.y] * (row - key);
      prob = __expf(score - p.lse[p.stat(row)]);
      ds = prob * (dot(v, p.dout + p.out_row(row), p.columns) - p.delta[p.stat(row)]);
    }
    const int count = min(32, p.T_len - q0);
    add_rows(dv, prob, p.dout + p.out_row(q0), out_stride, count, p.columns);
    add_rows(dk, ds, q + q0 * p.stride(), p.stride(), count, p.columns);
  }
  store_row(p.dqkv + p.part(1) + key * p.stride(), dk, p.scale, p.columns);
  store_row(p.dqkv + p.part(2) + key * p.stride(), dv, 1.0f, p.columns);
}

// One warp per (batch, row, head); rows of dout and out are contiguous in that order.
template <typename T>
__global__ void delta_kernel(float* delta, const T* dout, const T* out, int64_t rows, int T_len,
                             int heads, int columns) {
  const int64_t at = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (at >= rows) return;
  float sum = 0;
  for (int c = threadIdx.x % 32; c < columns; c += 32) {
    sum = fmaf(as_float(dout[at * columns + c]), as_float(out[at * columns + c]), sum);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 != 0) return;
  const int64_t head = at % heads, row = at / heads % T_len, batch = at / heads / T_len;
  delta[(batch * heads + head) * T_len + row] = sum;
}

template <typename T>
Params<T> params_for(const AttentionGeometry& g, const void* qkv) {
  Params<T> p{};
  p.T_len = static_cast<int>(g.T);
  p.heads = static_cast<int>(g.H);
  p.columns = static_cast<int>(g.D);
  p.scale = attention_scale(g);
  p.qkv = static_cast<const T*>(qkv);
  for (int64_t h = 0; h < g.H; ++h) p.slopes[h] = attention_slope(g, h);
  return p;
}

dim3 grid_for(const AttentionGeometry& g) {
  return {static_cast<unsigned>(blocks_for(g.T, kWarps)), static_cast<unsigned>(g.H),
          static_cast<unsigned>(g.B)};
}

}  // namespace

void attention_delta(float* delta, const AttentionBackward& call, cudaStream_t stream) {
  const AttentionGeometry& g = call.shape;
  const int64_t rows = g.B * g.T * g.H;
  with_float_type(g.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    delta_kernel<T><<<blocks_for(rows, 8), 256, 0, stream>>>(
        delta, static_cast<const T*>(call.dout), static_cast<const T*>(call.out), rows,
        static_cast<int>(g.T), static_cast<int>(g.H), static_cast<int>(g.D));
  });
  CUDA_CHECK_LAUNCH();
}

bool plain_supports(const AttentionGeometry& g) {
  return g.D <= kMaxColumns && g.H <= kGpuHeads && g.B <= kGpuSequences;
}

void plain_forward(const AttentionForward& call, Workspace&, cudaStream_t stream) {
  with_float_type(call.shape.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Params<T> p = params_for<T>(call.shape, call.qkv);
    p.out = static_cast<T*>(call.out);
    p.lse = call.lse;
    forward_kernel<T><<<grid_for(call.shape), 32 * kWarps, 0, stream>>>(p);
  });
  CUDA_CHECK_LAUNCH();
}

void plain_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream) {
  const AttentionGeometry& g = call.shape;
  auto* delta = static_cast<float*>(
      scratch.reserve(static_cast<size_t>(g.B * g.H * g.T) * sizeof(float), stream));
  attention_delta(delta, call, stream);
  with_float_type(g.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Params<T> p = params_for<T>(g, call.qkv);
    p.dqkv = static_cast<T*>(call.dqkv);
    p.lse = const_cast<float*>(call.lse);
    p.delta = delta;
    p.dout = static_cast<const T*>(call.dout);
    dq_kernel<T><<<grid_for(g), 32 * kWarps, 0, stream>>>(p);
    CUDA_CHECK_LAUNCH();
    dkv_kernel<T><<<grid_for(g), 32 * kWarps, 0, stream>>>(p);
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
