// Flash attention with mma.sync: causal, no T x T matrix, ALiBi, head sizes up to 128 in multiples
// of 8 (padded to 64 or 128 in shared memory). Four warps per block, each owns 16-row strips.
//
// Deterministic: every output element has one owner. The backward pass runs twice over the scores,
// once by query blocks for dq and once by key blocks for dk and dv, instead of adding dq with
// atomics: seven products instead of five.
#include "account/gpu_limits.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/lanes.h"
#include "backend/cuda/mma.cuh"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 128;
constexpr float kLn2 = 0.6931471805599453f;

template <typename T>
struct Params {
  T* out;      // forward: out; backward: dqkv
  float* lse;  // (B, H, T)
  const float* delta;
  const T* qkv;
  const T* dout;
  int T_len, heads, columns;
  float scale;
  float slopes[128];  // per head, times log2(e); zero without ALiBi

  __device__ int64_t qkv_stride() const { return int64_t{3} * heads * columns; }
  __device__ int64_t out_stride() const { return int64_t{heads} * columns; }
  // First row of q (0), k (1) or v (2) of this block's head, in qkv or dqkv.
  __device__ int64_t part(int which) const {
    return int64_t(blockIdx.z) * T_len * qkv_stride() +
           (int64_t{which} * heads + blockIdx.y) * columns;
  }
  __device__ int64_t out_start() const {
    return int64_t(blockIdx.z) * T_len * out_stride() + int64_t(blockIdx.y) * columns;
  }
  __device__ int64_t row_start() const {
    return (int64_t(blockIdx.z) * heads + blockIdx.y) * T_len;
  }
};

template <typename T, int D, int S>  // S: 16-row strips per warp
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ Params<T> p) {
  constexpr int kQ = 64 * S, kK = 64, N = kK / 8;
  extern __shared__ __align__(128) char memory[];
  T* tile_q = reinterpret_cast<T*>(memory);
  T* tile_k = tile_q + kQ * D;
  T* tile_v = tile_k + kK * D;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int q0 = (gridDim.x - 1 - blockIdx.x) * kQ;  // the longest rows first
  const int strip = warp * 16 * S;
  const T* q = p.qkv + p.part(0);
  const T* k = p.qkv + p.part(1);
  const T* v = p.qkv + p.part(2);
  const int64_t stride = p.qkv_stride();
  const float scale = p.scale * kLog2e, slope = p.slopes[blockIdx.y];

  load_tile<T, D, kQ, kThreads>(tile_q, q, stride, q0, p.T_len, p.columns);
  load_tile<T, D, kK, kThreads>(tile_k, k, stride, 0, p.T_len, p.columns);
  copy_async_commit();
  float o[S][D / 8][4] = {};
  float top[S][2], sum[S][2];
#pragma unroll
  for (int s = 0; s < S; ++s) {
    top[s][0] = top[s][1] = -INFINITY;
    sum[s][0] = sum[s][1] = 0;
  }
  const int key_end = min(p.T_len, q0 + kQ);
  for (int k0 = 0; k0 < key_end; k0 += kK) {
    copy_async_wait<0>();
    __syncthreads();  // keys are here, and nobody reads the previous values any more
    load_tile<T, D, kK, kThreads>(tile_v, v, stride, k0, p.T_len, p.columns);
    copy_async_commit();
    float score[S][N][4] = {};
    multiply_nt<T, D, S, N>(score, tile_q, strip, tile_k, 0);
    copy_async_wait<0>();
    __syncthreads();
    if (k0 + kK < key_end) {
      load_tile<T, D, kK, kThreads>(tile_k, k, stride, k0 + kK, p.T_len, p.columns);
      copy_async_commit();
    }
#pragma unroll
    for (int s = 0; s < S; ++s) {
      const int row = q0 + strip + s * 16 + lane / 4;
      const bool crosses = k0 + kK - 1 > q0 + strip + s * 16;  // the diagonal is inside
      float new_top[2] = {top[s][0], top[s][1]};
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int behind = k0 + n * 8 + (lane % 4) * 2 + e % 2 - (row + (e / 2) * 8);
          float x = score[s][n][e] * scale + slope * behind;
          if (crosses && behind > 0) x = -INFINITY;
          score[s][n][e] = x;
          new_top[e / 2] = fmaxf(new_top[e / 2], x);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        new_top[half] = quad_max(new_top[half]);
        const float shrink = power_of_two(top[s][half] - new_top[half]);
        top[s][half] = new_top[half];
        sum[s][half] *= shrink;
#pragma unroll
        for (int d = 0; d < D / 8; ++d) {
          o[s][d][2 * half] *= shrink;
          o[s][d][2 * half + 1] *= shrink;
        }
      }
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          score[s][n][e] = power_of_two(score[s][n][e] - top[s][e / 2]);
          sum[s][e / 2] += score[s][n][e];
        }
      }
    }
    multiply_nn<T, D, S, N>(o, score, tile_v, 0);
  }
  float inverse[S][2];
#pragma unroll
  for (int s = 0; s < S; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = quad_sum(sum[s][half]);
      inverse[s][half] = 1.0f / total;
      const int row = q0 + strip + s * 16 + half * 8 + lane / 4;
      if (lane % 4 == 0 && row < p.T_len) {
        p.lse[p.row_start() + row] = (top[s][half] + log2f(total)) * kLn2;
      }
    }
  }
  store_strip<T, D, S>(p.out + p.out_start(), p.out_stride(), q0 + strip, p.T_len, p.columns, o,
                       inverse);
}

// dq of one block of 64 queries: over all key blocks up to the diagonal, two in flight.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads) dq_kernel(const __grid_constant__ Params<T> p) {
  constexpr int kQ = 64, kK = 64, N = kK / 8;
  extern __shared__ __align__(128) char memory[];
  T* tile_q = reinterpret_cast<T*>(memory);
  T* tile_do = tile_q + kQ * D;
  T* tile_k = tile_do + kQ * D;  // two stages each
  T* tile_v = tile_k + 2 * kK * D;
  const int lane = threadIdx.x % 32, strip = threadIdx.x / 32 * 16;
  const int q0 = (gridDim.x - 1 - blockIdx.x) * kQ;
  const T* k = p.qkv + p.part(1);
  const T* v = p.qkv + p.part(2);
  const int64_t stride = p.qkv_stride();
  const float scale = p.scale * kLog2e, slope = p.slopes[blockIdx.y];

  load_tile<T, D, kQ, kThreads>(tile_q, p.qkv + p.part(0), stride, q0, p.T_len, p.columns);
  load_tile<T, D, kQ, kThreads>(tile_do, p.dout + p.out_start(), p.out_stride(), q0, p.T_len,
                                p.columns);
  load_tile<T, D, kK, kThreads>(tile_k, k, stride, 0, p.T_len, p.columns);
  load_tile<T, D, kK, kThreads>(tile_v, v, stride, 0, p.T_len, p.columns);
  copy_async_commit();
  float lse[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = q0 + strip + half * 8 + lane / 4;
    lse[half] = row < p.T_len ? p.lse[p.row_start() + row] * kLog2e : 0.0f;
    delta[half] = row < p.T_len ? p.delta[p.row_start() + row] : 0.0f;
  }
  float dq[1][D / 8][4] = {};
  const int key_end = min(p.T_len, q0 + kQ);
  int stage = 0;
  for (int k0 = 0; k0 < key_end; k0 += kK, stage ^= 1) {
    copy_async_wait<0>();
    __syncthreads();
    if (k0 + kK < key_end) {
      load_tile<T, D, kK, kThreads>(tile_k + (stage ^ 1) * kK * D, k, stride, k0 + kK, p.T_len,
                                    p.columns);
      load_tile<T, D, kK, kThreads>(tile_v + (stage ^ 1) * kK * D, v, stride, k0 + kK, p.T_len,
                                    p.columns);
      copy_async_commit();
    }
    float score[1][N][4] = {}, dp[1][N][4] = {};
    multiply_nt<T, D, 1, N>(score, tile_q, strip, tile_k + stage * kK * D, 0);
    multiply_nt<T, D, 1, N>(dp, tile_do, strip, tile_v + stage * kK * D, 0);
    const bool crosses = k0 + kK - 1 > q0 + strip;
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int behind =
            k0 + n * 8 + (lane % 4) * 2 + e % 2 - (q0 + strip + lane / 4 + (e / 2) * 8);
        const float prob = power_of_two(score[0][n][e] * scale + slope * behind - lse[e / 2]);
        const float ds = prob * (dp[0][n][e] - delta[e / 2]);
        score[0][n][e] = crosses && behind > 0 ? 0.0f : ds;
      }
    }
    multiply_nn<T, D, 1, N>(dq, score, tile_k + stage * kK * D, 0);
  }
  const float factor[1][2] = {{p.scale, p.scale}};
  store_strip<T, D, 1>(p.out + p.part(0), stride, q0 + strip, p.T_len, p.columns, dq, factor);
}

// dk and dv of one block of 64 keys: over all query blocks from the diagonal on, transposed scores.
template <typename T, int D>
__global__ void __launch_bounds__(kThreads) dkv_kernel(const __grid_constant__ Params<T> p) {
  constexpr int kK = 64, kQ = D > 64 ? 32 : 64, N = kQ / 8;
  extern __shared__ __align__(128) char memory[];
  T* tile_k = reinterpret_cast<T*>(memory);
  T* tile_v = tile_k + kK * D;
  T* tile_q = tile_v + kK * D;  // two stages each
  T* tile_do = tile_q + 2 * kQ * D;
  float* rows_lse = reinterpret_cast<float*>(tile_do + 2 * kQ * D);
  float* rows_delta = rows_lse + 2 * kQ;
  const int lane = threadIdx.x % 32, strip = threadIdx.x / 32 * 16;
  const int k0 = blockIdx.x * kK;  // low keys meet the most queries, and come first
  const T* q = p.qkv + p.part(0);
  const T* dout = p.dout + p.out_start();
  const int64_t stride = p.qkv_stride();
  const float scale = p.scale * kLog2e, slope = p.slopes[blockIdx.y];

  const auto load_queries = [&](int stage, int q0) {
    load_tile<T, D, kQ, kThreads>(tile_q + stage * kQ * D, q, stride, q0, p.T_len, p.columns);
    load_tile<T, D, kQ, kThreads>(tile_do + stage * kQ * D, dout, p.out_stride(), q0, p.T_len,
                                  p.columns);
    if (threadIdx.x < kQ) {
      const int row = q0 + threadIdx.x;
      const int64_t at = p.row_start() + min(row, p.T_len - 1);
      copy_async_4(rows_lse + stage * kQ + threadIdx.x, p.lse + at, row < p.T_len);
      copy_async_4(rows_delta + stage * kQ + threadIdx.x, p.delta + at, row < p.T_len);
    }
    copy_async_commit();
  };
  load_tile<T, D, kK, kThreads>(tile_k, p.qkv + p.part(1), stride, k0, p.T_len, p.columns);
  load_tile<T, D, kK, kThreads>(tile_v, p.qkv + p.part(2), stride, k0, p.T_len, p.columns);
  load_queries(0, k0);
  float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
  int stage = 0;
  for (int q0 = k0; q0 < p.T_len; q0 += kQ, stage ^= 1) {
    copy_async_wait<0>();
    __syncthreads();
    if (q0 + kQ < p.T_len) load_queries(stage ^ 1, q0 + kQ);
    const T* now_q = tile_q + stage * kQ * D;
    const T* now_do = tile_do + stage * kQ * D;
    float score[1][N][4] = {}, dp[1][N][4] = {};
    multiply_nt<T, D, 1, N>(score, tile_k, strip, now_q, 0);
    const bool crosses = k0 + strip + 15 > q0;
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = n * 8 + (lane % 4) * 2 + e % 2;
        const int behind = k0 + strip + lane / 4 + (e / 2) * 8 - (q0 + column);
        const float lse = rows_lse[stage * kQ + column] * kLog2e;
        const float prob = power_of_two(score[0][n][e] * scale + slope * behind - lse);
        score[0][n][e] = crosses && behind > 0 ? 0.0f : prob;
      }
    }
    multiply_nn<T, D, 1, N>(dv, score, now_do, 0);
    multiply_nt<T, D, 1, N>(dp, tile_v, strip, now_do, 0);
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = n * 8 + (lane % 4) * 2 + e % 2;
        score[0][n][e] *= dp[0][n][e] - rows_delta[stage * kQ + column];
      }
    }
    multiply_nn<T, D, 1, N>(dk, score, now_q, 0);
  }
  const float one[1][2] = {{1.0f, 1.0f}}, factor[1][2] = {{p.scale, p.scale}};
  store_strip<T, D, 1>(p.out + p.part(1), stride, k0 + strip, p.T_len, p.columns, dk, factor);
  store_strip<T, D, 1>(p.out + p.part(2), stride, k0 + strip, p.T_len, p.columns, dv, one);
}

template <typename T>
Params<T> params_for(const AttentionGeometry& g) {
  Params<T> p{};
  p.T_len = static_cast<int>(g.T);
  p.heads = static_cast<int>(g.H);
  p.columns = static_cast<int>(g.D);
  p.scale = attention_scale(g);
  for (int64_t h = 0; h < g.H; ++h) p.slopes[h] = attention_slope(g, h) * kLog2e;
  return p;
}

// Of shared memory: what a block can have on every GPU from 8.0 (8.6, 8.9 and 12.0 have no more).
constexpr size_t kMostShared = size_t{99} << 10;

template <size_t kShared, typename Kernel, typename P>
void launch(Kernel kernel, const AttentionGeometry& g, int rows, const P& p, cudaStream_t stream) {
  static_assert(kShared <= kMostShared);
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kShared)));
  const dim3 grid(blocks_for(g.T, rows), static_cast<unsigned>(g.H), static_cast<unsigned>(g.B));
  kernel<<<grid, kThreads, kShared, stream>>>(p);
  CUDA_CHECK_LAUNCH();
}

// Calls f(Type<T>, constant D) for the element type and the padded head size.
template <typename F>
void with_kernel(const AttentionGeometry& g, F&& f) {
  const auto with_size = [&](auto tag) {
    if (g.D <= 64) {
      f(tag, std::integral_constant<int, 64>{});
    } else {
      f(tag, std::integral_constant<int, 128>{});
    }
  };
  g.type == DType::bf16 ? with_size(Type<bf16>{}) : with_size(Type<f16>{});
}

}  // namespace

bool flash_supports(const AttentionGeometry& g) {
  return (g.type == DType::bf16 || g.type == DType::f16) && g.D % 8 == 0 && g.D <= 128 &&
         g.H <= kGpuHeads && g.B <= kGpuSequences;
}

void flash_forward(const AttentionForward& call, Workspace&, cudaStream_t stream) {
  with_kernel(call.shape, [&](auto tag, auto size) {
    using T = typename decltype(tag)::type;
    constexpr int D = decltype(size)::value, S = D == 64 ? 2 : 1;
    Params<T> p = params_for<T>(call.shape);
    p.out = static_cast<T*>(call.out);
    p.lse = call.lse;
    p.qkv = static_cast<const T*>(call.qkv);
    launch<(64 * S + 128) * D * sizeof(T)>(forward_kernel<T, D, S>, call.shape, 64 * S, p, stream);
  });
}

void flash_backward(const AttentionBackward& call, Workspace& scratch, cudaStream_t stream) {
  const AttentionGeometry& g = call.shape;
  auto* delta = static_cast<float*>(
      scratch.reserve(static_cast<size_t>(g.B * g.H * g.T) * sizeof(float), stream));
  attention_delta(delta, call, stream);
  with_kernel(g, [&](auto tag, auto size) {
    using T = typename decltype(tag)::type;
    constexpr int D = decltype(size)::value, kQ = D > 64 ? 32 : 64;
    Params<T> p = params_for<T>(g);
    p.out = static_cast<T*>(call.dqkv);
    p.lse = const_cast<float*>(call.lse);
    p.delta = delta;
    p.qkv = static_cast<const T*>(call.qkv);
    p.dout = static_cast<const T*>(call.dout);
    launch<6 * 64 * D * sizeof(T)>(dq_kernel<T, D>, g, 64, p, stream);
    launch<(2 * 64 + 4 * kQ) * D * sizeof(T) + 4 * kQ * sizeof(float)>(dkv_kernel<T, D>, g, 64, p,
                                                                       stream);
  });
}

}  // namespace stretto::cuda
