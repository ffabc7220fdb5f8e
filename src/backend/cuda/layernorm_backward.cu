// LayerNorm backward. A block owns whole rows and each thread the same columns of all of them, so
// the weight gradients stay in registers until the block is done; partial sums of the blocks are
// then added in block order.
//
// The common kernel fetches rows ahead with asynchronous copies into shared memory: each thread
// reads only what it fetched itself, so no barrier guards the ring, and memory stays busy while
// the block sums the rows at hand.
#include <algorithm>

#include "backend/cuda/column_sum.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/row_pipeline.cuh"

namespace stretto::cuda {
namespace {

template <typename T>
struct BackwardArgs {
  T* dinp;
  float* dweight_parts;  // (blocks, columns)
  float* dbias_parts;    // may be null
  float* dinp_parts;     // may be null: column sums of the result
  const T* dout;
  const T* inp;
  const float* mean;
  const float* rstd;
  const T* weight;
  int64_t rows;
  int columns;
  bool accumulate;
};

// R rows at once, S groups of them on their way or in work. One pack per thread.
template <typename T, int R, int S>
__global__ void __launch_bounds__(kMostThreads) pipelined_kernel(BackwardArgs<T> args) {
  constexpr int V = kVector<T>, N = 2 * R, kPer = 32 / N;
  extern __shared__ int4 ring[];  // [S][R][3][threads]: dout, inp, the old gradient
  __shared__ float shared[2][N][kMostThreads / 32];
  const int threads = blockDim.x;
  const int column = threadIdx.x * V;
  const bool mine = column < args.columns;
  const int64_t groups = (args.rows + R - 1) / R;
  const auto slot = [&](int stage, int r, int which) {
    return &ring[((stage * R + r) * 3 + which) * threads + threadIdx.x];
  };
  const auto fetch = [&](int64_t group, int stage) {
    if (mine && group < groups) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int64_t at = min(group * R + r, args.rows - 1) * args.columns + column;
        copy_async(slot(stage, r, 0), args.dout + at);
        copy_async(slot(stage, r, 1), args.inp + at);
        if (args.accumulate) copy_async(slot(stage, r, 2), args.dinp + at);
      }
    }
    commit_copies();
  };
  const auto pack_at = [&](int stage, int r, int which) {
    return *reinterpret_cast<const Pack<T, V>*>(slot(stage, r, which));
  };
  Pack<T, V> weight{};
  if (mine) weight = Pack<T, V>::load(args.weight + column);
  float dweight[V] = {}, dbias[V] = {}, dinp_sums[V] = {};
#pragma unroll
  for (int s = 0; s < S - 1; ++s) fetch(blockIdx.x + int64_t{s} * gridDim.x, s);

  float mean[R], rstd[R];  // of the next group
  const auto fetch_statistics = [&](int64_t group) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int64_t row = min(group * R + r, args.rows - 1);
      mean[r] = args.mean[row];
      rstd[r] = args.rstd[row];
    }
  };
  fetch_statistics(blockIdx.x);

  int stage = 0, phase = 0;
  for (int64_t group = blockIdx.x; group < groups; group += gridDim.x, phase ^= 1) {
    float scale[R], shift[R];  // normalised = inp * scale + shift
#pragma unroll
    for (int r = 0; r < R; ++r) {
      scale[r] = rstd[r];
      shift[r] = -mean[r] * rstd[r];
    }
    fetch_statistics(group + gridDim.x);
    wait_copies<S - 2>();
    float sums[N] = {};  // over the row: g = dout * weight, and g * normalised
    if (mine) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (group * R + r >= args.rows) break;
        const auto dout = pack_at(stage, r, 0), inp = pack_at(stage, r, 1);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float norm = fmaf(inp[i], scale[r], shift[r]);
          const float g = dout[i] * weight[i];
          sums[2 * r] += g;
          sums[2 * r + 1] = fmaf(g, norm, sums[2 * r + 1]);
          dbias[i] += dout[i];
          dweight[i] = fmaf(dout[i], norm, dweight[i]);
        }
      }
    }
    // The slot of the group before this one is free: this thread has read it.
    fetch(group + int64_t{S - 1} * gridDim.x, stage == 0 ? S - 1 : stage - 1);
    float total = block_totals(sums, shared[phase]);
    total /= args.columns;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float plain = __shfl_sync(0xffffffffu, total, 2 * r * kPer) * scale[r];
      const float with_norm = __shfl_sync(0xffffffffu, total, (2 * r + 1) * kPer) * scale[r];
      if (!mine || group * R + r >= args.rows) continue;
      const auto dout = pack_at(stage, r, 0), inp = pack_at(stage, r, 1);
      Pack<T, V> old{}, result;
      if (args.accumulate) old = pack_at(stage, r, 2);
      float sum[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float norm = fmaf(inp[i], scale[r], shift[r]);
        const float d = fmaf(dout[i], weight[i] * scale[r], -fmaf(norm, with_norm, plain));
        sum[i] = args.accumulate ? old[i] + d : d;
      }
      result.set_all(sum);
#pragma unroll
      for (int i = 0; i < V; ++i) dinp_sums[i] += result[i];
      result.store(args.dinp + (group * R + r) * args.columns + column);
    }
    stage = stage == S - 1 ? 0 : stage + 1;
  }
  if (!mine) return;
  const int64_t at = int64_t(blockIdx.x) * args.columns + column;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    args.dweight_parts[at + i] = dweight[i];
    if (args.dbias_parts != nullptr) args.dbias_parts[at + i] = dbias[i];
    if (args.dinp_parts != nullptr) args.dinp_parts[at + i] = dinp_sums[i];
  }
}

// Any width and alignment: a row at a time, P packs of V columns per thread.
template <typename T, int V, int P>
__global__ void __launch_bounds__(kMostThreads) general_kernel(BackwardArgs<T> args) {
  __shared__ float2 shared[2][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  float dweight[P][V] = {}, dbias[P][V] = {}, dinp_sums[P][V] = {};
  int phase = 0;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x, phase ^= 1) {
    Pack<T, V> dout[P], inp[P];
    const float mean = args.mean[row], rstd = args.rstd[row];
    float plain = 0,
          with_norm = 0;  // sums over the row of g = dout * weight, and of g * normalised
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int c = (p * blockDim.x + threadIdx.x) * V;
      if (c >= args.columns) continue;
      dout[p] = Pack<T, V>::load_streaming(args.dout + row * args.columns + c);
      inp[p] = Pack<T, V>::load_streaming(args.inp + row * args.columns + c);
    }
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int c = (p * blockDim.x + threadIdx.x) * V;
      if (c >= args.columns) continue;
      const auto w = Pack<T, V>::load(args.weight + c);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float norm = (inp[p][i] - mean) * rstd;
        const float g = dout[p][i] * w[i];
        plain += g;
        with_norm += g * norm;
        dbias[p][i] += dout[p][i];
        dweight[p][i] += dout[p][i] * norm;
      }
    }
    plain = warp_sum(plain);
    with_norm = warp_sum(with_norm);
    if (lane == 0) shared[phase][warp] = {plain, with_norm};
    __syncthreads();
    plain = with_norm = 0;
    for (int w = 0; w < warps; ++w) {
      plain += shared[phase][w].x;
      with_norm += shared[phase][w].y;
    }
    plain /= args.columns;
    with_norm /= args.columns;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int c = (p * blockDim.x + threadIdx.x) * V;
      if (c >= args.columns) continue;
      T* target = args.dinp + row * args.columns + c;
      const auto w = Pack<T, V>::load(args.weight + c);
      Pack<T, V> old{}, result;
      if (args.accumulate) old = Pack<T, V>::load(target);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float norm = (inp[p][i] - mean) * rstd;
        const float d = (dout[p][i] * w[i] - plain - norm * with_norm) * rstd;
        result.set(i, args.accumulate ? old[i] + d : d);
        dinp_sums[p][i] += result[i];
      }
      result.store(target);
    }
  }
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int c = (p * blockDim.x + threadIdx.x) * V;
    if (c >= args.columns) continue;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const int64_t at = int64_t(blockIdx.x) * args.columns + c + i;
      args.dweight_parts[at] = dweight[p][i];
      if (args.dbias_parts != nullptr) args.dbias_parts[at] = dbias[p][i];
      if (args.dinp_parts != nullptr) args.dinp_parts[at] = dinp_sums[p][i];
    }
  }
}

template <typename T>
struct BackwardLaunch {
  void (*kernel)(BackwardArgs<T>);
  int threads;
  size_t shared_bytes;
};

// Threads per block so that each owns P packs of V columns.
int threads_for(int columns, int v, int p) {
  return (columns + v * p * 32 - 1) / (v * p * 32) * 32;
}

template <typename T, int R, int S>
size_t pipelined_bytes(int threads) {
  return size_t{R} * S * 3 * sizeof(int4) * static_cast<size_t>(threads);
}

template <typename T, int R, int S>
BackwardLaunch<T> pipelined(int threads) {
  const size_t bytes = pipelined_bytes<T, R, S>(threads);
  auto* kernel = pipelined_kernel<T, R, S>;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)));
  return {kernel, threads, bytes};
}

// `shared_bytes`: what a block may ask for. Consumer GPUs have less than half of an A100's.
template <typename T>
BackwardLaunch<T> launch_for(int columns, bool vectorise, size_t shared_bytes) {
  if (vectorise) {
    const int threads = threads_for(columns, kVector<T>, 1);
    if (threads <= 160 && pipelined_bytes<T, 4, 3>(threads) <= shared_bytes) {
      return pipelined<T, 4, 3>(threads);
    }
    if (threads <= kMostThreads && pipelined_bytes<T, 2, 3>(threads) <= shared_bytes) {
      return pipelined<T, 2, 3>(threads);
    }
    const int wide = threads_for(columns, kVector<T>, 4);
    if (wide <= kMostThreads) return {general_kernel<T, kVector<T>, 4>, wide, 0};
    const int wider = threads_for(columns, kVector<T>, 8);
    STRETTO_CHECK(wider <= kMostThreads, "LayerNorm backward of {} columns", columns);
    return {general_kernel<T, kVector<T>, 8>, wider, 0};
  }
  if (columns <= kMostThreads) return {general_kernel<T, 1, 1>, threads_for(columns, 1, 1), 0};
  const int wide = threads_for(columns, 1, 16);
  STRETTO_CHECK(wide <= kMostThreads, "LayerNorm backward of {} columns", columns);
  return {general_kernel<T, 1, 16>, wide, 0};
}

// As many blocks as run at once: a function of the kernel, the shape and the GPU model.
template <typename T>
int blocks_of(const BackwardLaunch<T>& launch, int64_t rows, int multiprocessors) {
  constexpr int kMost = 8;  // per multiprocessor: each leaves a row of partial sums
  int resident = 1;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, launch.kernel, launch.threads,
                                                           launch.shared_bytes));
  const int64_t blocks = int64_t{multiprocessors} * std::clamp(resident, 1, kMost);
  return static_cast<int>(std::clamp<int64_t>(rows / 4, 1, blocks));
}

}  // namespace

void CudaBackend::do_layernorm_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout,
                                        ConstTensor inp, ConstTensor mean, ConstTensor rstd,
                                        ConstTensor weight, Grad mode, Tensor dinp_sums) {
  if (inp.count() == 0) return;
  const int columns = static_cast<int>(inp.last());
  with_float_type(inp.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto launch = launch_for<T>(
        columns, can_vectorise<T>(columns, dinp.data(), dout.data(), inp.data(), weight.data()),
        dynamic_shared_bytes());
    const int blocks = blocks_of(launch, inp.rows(), properties_.multiProcessorCount);
    const int64_t size = int64_t{blocks} * columns;
    float* parts = scratch<float>(3 * size);
    float* dbias_parts = dbias.none() ? nullptr : parts + size;
    float* dinp_parts = dinp_sums.none() ? nullptr : parts + 2 * size;
    const BackwardArgs<T> args{data_of<T>(dinp),
                               parts,
                               dbias_parts,
                               dinp_parts,
                               data_of<T>(dout),
                               data_of<T>(inp),
                               data_of<float>(mean),
                               data_of<float>(rstd),
                               data_of<T>(weight),
                               inp.rows(),
                               columns,
                               mode == Grad::accumulate};
    launch.kernel<<<blocks, launch.threads, launch.shared_bytes, stream()>>>(args);
    CUDA_CHECK_LAUNCH();
    sum_parts({{dweight, parts}, {dbias, dbias_parts}, {dinp_sums, dinp_parts}}, blocks,
              Grad::accumulate, stream());
  });
}

}  // namespace stretto::cuda
