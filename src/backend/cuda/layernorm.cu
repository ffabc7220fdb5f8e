// LayerNorm over the last dim, with the addition before it: a row stays in the registers of a warp
// or a block between its sums and its result, so it is read once.
#include <algorithm>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/row_pipeline.cuh"

namespace stretto::cuda {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr int kWarpsPerBlock = 4;

template <typename T>
struct ForwardArgs {
  T* sum;
  T* out;
  float* mean;
  float* rstd;
  const T* a;  // null: plain LayerNorm of b
  const T* b;
  const T* weight;
  const T* bias;  // may be null
  int64_t rows;
  int columns;
};

// A warp owns a row at a time, P packs per lane, and fetches its next one while it works.
template <typename T, int V, int P, bool kAdd>
__global__ void __launch_bounds__(32 * kWarpsPerBlock) forward_warp_kernel(ForwardArgs<T> args) {
  const int lane = threadIdx.x % 32;
  const int64_t stride = int64_t(gridDim.x) * kWarpsPerBlock;
  Pack<T, V> next_a[kAdd ? P : 1], next_b[P];
  const auto fetch = [&](int64_t row) {
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int c = (p * 32 + lane) * V;
      if (row >= args.rows || c >= args.columns) continue;
      next_b[p] = Pack<T, V>::load_streaming(args.b + row * args.columns + c);
      if constexpr (kAdd) {
        next_a[p] = Pack<T, V>::load_streaming(args.a + row * args.columns + c);
      }
    }
  };
  int64_t row = int64_t(blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
  fetch(row);
  for (; row < args.rows; row += stride) {
    const int64_t start = row * args.columns;
    Pack<T, V> x[P];
    float total = 0;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int c = (p * 32 + lane) * V;
      if (c >= args.columns) continue;
      x[p] = next_b[p];
      if constexpr (kAdd) {
        float sum[V];
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] = x[p][i] + next_a[p][i];
        x[p].set_all(sum);
        x[p].store(args.sum + start + c);
      }
#pragma unroll
      for (int i = 0; i < V; ++i) total += x[p][i];
    }
    fetch(row + stride);
    const float mean = warp_sum(total) / args.columns;
    float squares = 0;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if ((p * 32 + lane) * V >= args.columns) continue;
#pragma unroll
      for (int i = 0; i < V; ++i) squares += (x[p][i] - mean) * (x[p][i] - mean);
    }
    const float rstd = rsqrtf(warp_sum(squares) / args.columns + kEpsilon);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int c = (p * 32 + lane) * V;
      if (c >= args.columns) continue;
      const auto w = Pack<T, V>::load(args.weight + c);
      Pack<T, V> bias{};
      if (args.bias != nullptr) bias = Pack<T, V>::load(args.bias + c);
      float scaled[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        scaled[i] = (x[p][i] - mean) * rstd * w[i];
        if (args.bias != nullptr) scaled[i] += bias[i];
      }
      x[p].set_all(scaled);
      x[p].store(args.out + start + c);
    }
    if (lane == 0) {
      if (args.mean != nullptr) args.mean[row] = mean;
      if (args.rstd != nullptr) args.rstd[row] = rstd;
    }
  }
}

// Longer rows: a block walks rows, R at once and S groups of them on their way or in work; a pack
// of each row per thread. Each thread reads only what it fetched itself.
template <typename T, int R, int S, bool kAdd>
__global__ void __launch_bounds__(kMostThreads) forward_rows_kernel(ForwardArgs<T> args) {
  constexpr int V = kVector<T>, kPer = 32 / R, kOperands = kAdd ? 2 : 1;
  extern __shared__ int4 ring[];  // [S][R][operands][threads]: b, a
  __shared__ float shared[2][2][R][kMostThreads / 32];
  const int threads = blockDim.x, lane = threadIdx.x % 32, column = threadIdx.x * V;
  const bool mine = column < args.columns;
  const int64_t groups = (args.rows + R - 1) / R;
  const auto slot = [&](int stage, int r, int which) {
    return &ring[((stage * R + r) * kOperands + which) * threads + threadIdx.x];
  };
  const auto fetch = [&](int64_t group, int stage) {
    if (mine && group < groups) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int64_t at = min(group * R + r, args.rows - 1) * args.columns + column;
        copy_async(slot(stage, r, 0), args.b + at);
        if constexpr (kAdd) copy_async(slot(stage, r, 1), args.a + at);
      }
    }
    commit_copies();
  };
  Pack<T, V> weight{}, bias{};
  if (mine) {
    weight = Pack<T, V>::load(args.weight + column);
    if (args.bias != nullptr) bias = Pack<T, V>::load(args.bias + column);
  }
#pragma unroll
  for (int s = 0; s < S - 1; ++s) fetch(blockIdx.x + int64_t{s} * gridDim.x, s);

  int stage = 0, phase = 0;
  for (int64_t group = blockIdx.x; group < groups; group += gridDim.x, phase ^= 1) {
    wait_copies<S - 2>();
    Pack<T, V> x[R] = {};
    float sums[R] = {};
    if (mine) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        x[r] = *reinterpret_cast<const Pack<T, V>*>(slot(stage, r, 0));
        if constexpr (kAdd) {
          const auto a = *reinterpret_cast<const Pack<T, V>*>(slot(stage, r, 1));
          float sum[V];
#pragma unroll
          for (int i = 0; i < V; ++i) sum[i] = x[r][i] + a[i];
          x[r].set_all(sum);
          if (group * R + r < args.rows) {
            x[r].store(args.sum + (group * R + r) * args.columns + column);
          }
        }
#pragma unroll
        for (int i = 0; i < V; ++i) sums[r] += x[r][i];
      }
    }
    // The slot of the group before this one is free: this thread has read it.
    fetch(group + int64_t{S - 1} * gridDim.x, stage == 0 ? S - 1 : stage - 1);
    const float means = block_totals(sums, shared[phase][0]) / args.columns;
    float squares[R] = {};
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float mean = __shfl_sync(0xffffffffu, means, r * kPer);
      if (!mine) continue;
#pragma unroll
      for (int i = 0; i < V; ++i) squares[r] += (x[r][i] - mean) * (x[r][i] - mean);
    }
    const float rstds = rsqrtf(block_totals(squares, shared[phase][1]) / args.columns + kEpsilon);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float mean = __shfl_sync(0xffffffffu, means, r * kPer);
      const float rstd = __shfl_sync(0xffffffffu, rstds, r * kPer);
      if (!mine || group * R + r >= args.rows) continue;
      float scaled[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        scaled[i] = (x[r][i] - mean) * rstd * weight[i];
        if (args.bias != nullptr) scaled[i] += bias[i];
      }
      x[r].set_all(scaled);
      x[r].store(args.out + (group * R + r) * args.columns + column);
    }
    if (const int64_t row = group * R + lane / kPer;
        threadIdx.x < 32 && lane % kPer == 0 && row < args.rows) {
      if (args.mean != nullptr) args.mean[row] = means;
      if (args.rstd != nullptr) args.rstd[row] = rstds;
    }
    stage = stage == S - 1 ? 0 : stage + 1;
  }
}

// Rows too long for a pack per thread, or not of whole 16-byte packs: one block per row,
// which reads it three times, the last two from the cache.
template <typename T, int V>
__global__ void __launch_bounds__(256) forward_block_kernel(ForwardArgs<T> args) {
  __shared__ float shared[2][32];
  const int64_t start = int64_t(blockIdx.x) * args.columns;
  const int step = blockDim.x * V;
  const T* source = args.a != nullptr ? args.sum : args.b;
  float total = 0;
  for (int c = threadIdx.x * V; c < args.columns; c += step) {
    auto x = Pack<T, V>::load(args.b + start + c);
    if (args.a != nullptr) {
      const auto a = Pack<T, V>::load(args.a + start + c);
#pragma unroll
      for (int i = 0; i < V; ++i) x.set(i, x[i] + a[i]);
      x.store(args.sum + start + c);
    }
#pragma unroll
    for (int i = 0; i < V; ++i) total += x[i];
  }
  const float mean = block_sum(total, shared[0]) / args.columns;
  float squares = 0;
  for (int c = threadIdx.x * V; c < args.columns; c += step) {
    const auto x = Pack<T, V>::load(source + start + c);
#pragma unroll
    for (int i = 0; i < V; ++i) squares += (x[i] - mean) * (x[i] - mean);
  }
  const float rstd = rsqrtf(block_sum(squares, shared[1]) / args.columns + kEpsilon);
  for (int c = threadIdx.x * V; c < args.columns; c += step) {
    auto x = Pack<T, V>::load(source + start + c);
    const auto w = Pack<T, V>::load(args.weight + c);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float scaled = (x[i] - mean) * rstd * w[i];
      x.set(i, args.bias != nullptr ? scaled + as_float(args.bias[c + i]) : scaled);
    }
    x.store(args.out + start + c);
  }
  if (threadIdx.x == 0) {
    if (args.mean != nullptr) args.mean[blockIdx.x] = mean;
    if (args.rstd != nullptr) args.rstd[blockIdx.x] = rstd;
  }
}

template <typename T>
using ForwardKernel = void (*)(ForwardArgs<T>);

// As many blocks as run at once, or fewer: they walk the rows.
template <typename T>
void launch_walking(ForwardKernel<T> kernel, const ForwardArgs<T>& args, int threads,
                    int rows_at_once, size_t shared_bytes, int multiprocessors,
                    cudaStream_t stream) {
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes)));
  int resident = 1;
  CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared_bytes));
  const int64_t blocks = std::min<int64_t>(blocks_for(args.rows, rows_at_once),
                                           int64_t{multiprocessors} * std::max(1, resident));
  kernel<<<static_cast<unsigned>(blocks), threads, shared_bytes, stream>>>(args);
}

// The kernel in which a warp holds `packs` packs per lane; null: too many for its registers.
template <typename T>
ForwardKernel<T> warp_kernel(int packs, bool add) {
  constexpr int V = kVector<T>;
  if (packs <= 3)
    return add ? forward_warp_kernel<T, V, 3, true> : forward_warp_kernel<T, V, 3, false>;
  if (packs <= 4)
    return add ? forward_warp_kernel<T, V, 4, true> : forward_warp_kernel<T, V, 4, false>;
  return nullptr;
}

template <typename T>
void launch_forward(const ForwardArgs<T>& args, bool vectorise, int multiprocessors,
                    size_t shared_bytes, cudaStream_t stream) {
  constexpr int V = kVector<T>, R = 2, S = 4;
  const int packs = (args.columns + 32 * V - 1) / (32 * V), row_threads = 32 * packs;
  const bool add = args.a != nullptr;
  const size_t bytes =
      size_t{R} * S * (add ? 2 : 1) * sizeof(int4) * static_cast<size_t>(row_threads);
  if (const auto kernel = warp_kernel<T>(packs, add); vectorise && kernel != nullptr) {
    launch_walking(kernel, args, 32 * kWarpsPerBlock, kWarpsPerBlock, 0, multiprocessors, stream);
  } else if (vectorise && row_threads <= kMostThreads && bytes <= shared_bytes) {
    launch_walking(add ? forward_rows_kernel<T, R, S, true> : forward_rows_kernel<T, R, S, false>,
                   args, row_threads, R, bytes, multiprocessors, stream);
  } else if (vectorise) {
    forward_block_kernel<T, V><<<static_cast<int>(args.rows), 256, 0, stream>>>(args);
  } else {
    forward_block_kernel<T, 1><<<static_cast<int>(args.rows), 256, 0, stream>>>(args);
  }
  CUDA_CHECK_LAUNCH();
}

}  // namespace

void CudaBackend::do_layernorm_forward(Tensor sum, Tensor out, Tensor mean, Tensor rstd,
                                       ConstTensor a, ConstTensor b, ConstTensor weight,
                                       ConstTensor bias) {
  if (b.count() == 0) return;
  with_float_type(b.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ForwardArgs<T> args{data_of<T>(sum),           data_of<T>(out),  data_of<float>(mean),
                              data_of<float>(rstd),      data_of<T>(a),    data_of<T>(b),
                              data_of<T>(weight),        data_of<T>(bias), b.rows(),
                              static_cast<int>(b.last())};
    launch_forward(args,
                   can_vectorise<T>(b.last(), sum.data(), out.data(), a.data(), b.data(),
                                    weight.data(), bias.data()),
                   properties_.multiProcessorCount, dynamic_shared_bytes(), stream());
  });
}

}  // namespace stretto::cuda
