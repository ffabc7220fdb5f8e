// LayerNorm over the last dim. Forward: one warp owns one row and keeps it in registers, so the row
// is read once. Backward: one block owns whole rows and each thread the same columns of all of
// them, so the weight gradients stay in registers until the block is done; partial sums of the
// blocks are then added in block order.
#include <algorithm>

#include "backend/cuda/column_sum.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"

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

template <typename T, int V, int P>
__global__ void __launch_bounds__(32 * kWarpsPerBlock) forward_warp_kernel(ForwardArgs<T> args) {
  const int lane = threadIdx.x % 32;
  const int64_t row = int64_t(blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
  if (row >= args.rows) return;
  const int64_t start = row * args.columns;
  Pack<T, V> x[P];
  float total = 0;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int c = (p * 32 + lane) * V;
    if (c < args.columns) x[p] = Pack<T, V>::load_streaming(args.b + start + c);
  }
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int c = (p * 32 + lane) * V;
    if (c >= args.columns) continue;
    if (args.a != nullptr) {
      const auto a = Pack<T, V>::load_streaming(args.a + start + c);
#pragma unroll
      for (int i = 0; i < V; ++i) x[p].set(i, x[p][i] + a[i]);
      x[p].store(args.sum + start + c);
    }
#pragma unroll
    for (int i = 0; i < V; ++i) total += x[p][i];
  }
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
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float scaled = (x[p][i] - mean) * rstd * w[i];
      x[p].set(i, args.bias != nullptr ? scaled + bias[i] : scaled);
    }
    x[p].store(args.out + start + c);
  }
  if (lane == 0) {
    if (args.mean != nullptr) args.mean[row] = mean;
    if (args.rstd != nullptr) args.rstd[row] = rstd;
  }
}

// Longer rows: one block owns one, a pack per thread.
template <typename T, int V>
__global__ void __launch_bounds__(1024) forward_row_kernel(ForwardArgs<T> args) {
  __shared__ float shared[2][32];
  const int c = threadIdx.x * V;
  const bool mine = c < args.columns;
  const int64_t at = int64_t(blockIdx.x) * args.columns + c;
  Pack<T, V> x{}, w{}, bias{};
  if (mine) {
    x = Pack<T, V>::load_streaming(args.b + at);
    if (args.a != nullptr) {
      const auto a = Pack<T, V>::load_streaming(args.a + at);
#pragma unroll
      for (int i = 0; i < V; ++i) x.set(i, x[i] + a[i]);
      x.store(args.sum + at);
    }
    w = Pack<T, V>::load(args.weight + c);
    if (args.bias != nullptr) bias = Pack<T, V>::load(args.bias + c);
  }
  float total = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < V; ++i) total += x[i];  // zero beyond the row
  const float mean = block_sum(total, shared[0]) / args.columns;
#pragma unroll
  for (int i = 0; i < V; ++i) squares += mine ? (x[i] - mean) * (x[i] - mean) : 0.0f;
  const float rstd = rsqrtf(block_sum(squares, shared[1]) / args.columns + kEpsilon);
  if (mine) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float scaled = (x[i] - mean) * rstd * w[i];
      x.set(i, args.bias != nullptr ? scaled + bias[i] : scaled);
    }
    x.store(args.out + at);
  }
  if (threadIdx.x == 0) {
    if (args.mean != nullptr) args.mean[blockIdx.x] = mean;
    if (args.rstd != nullptr) args.rstd[blockIdx.x] = rstd;
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
void launch_forward(const ForwardArgs<T>& args, bool vectorise, cudaStream_t stream) {
  constexpr int V = kVector<T>;
  const int packs_per_lane = (args.columns + 32 * V - 1) / (32 * V);
  const int warp_blocks = blocks_for(args.rows, kWarpsPerBlock);
  const int threads = 32 * kWarpsPerBlock;
  if (!vectorise) {
    forward_block_kernel<T, 1><<<static_cast<int>(args.rows), 256, 0, stream>>>(args);
  } else if (packs_per_lane <= 4) {
    forward_warp_kernel<T, V, 4><<<warp_blocks, threads, 0, stream>>>(args);
  } else if (packs_per_lane <= 32) {
    forward_row_kernel<T, V>
        <<<static_cast<unsigned>(args.rows), 32 * packs_per_lane, 0, stream>>>(args);
  } else {
    forward_block_kernel<T, V><<<static_cast<int>(args.rows), 256, 0, stream>>>(args);
  }
  CUDA_CHECK_LAUNCH();
}

// Rows whose loads and sums overlap; one where a thread owns so many columns that registers are
// short.
constexpr int rows_at_once(int packs) { return packs == 1 ? 2 : 1; }
constexpr int kBackwardThreads = 512;

template <typename T>
struct BackwardArgs {
  T* dinp;
  float* dweight_parts;  // (blocks, columns)
  float* dbias_parts;    // may be null
  const T* dout;
  const T* inp;
  const float* mean;
  const float* rstd;
  const T* weight;
  int64_t rows;
  int columns;
  bool accumulate;
};

template <typename T, int V, int P>
__global__ void __launch_bounds__(kBackwardThreads) backward_kernel(BackwardArgs<T> args) {
  constexpr int R = rows_at_once(P);
  __shared__ float2 shared[2][R][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  float dweight[P][V] = {}, dbias[P][V] = {};
  int phase = 0;
  for (int64_t first = int64_t(blockIdx.x) * R; first < args.rows;
       first += int64_t(gridDim.x) * R, phase ^= 1) {
    Pack<T, V> dout[R][P], inp[R][P], old[R][P];
    float mean[R], rstd[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int64_t row = min(first + r, args.rows - 1);
      mean[r] = args.mean[row];
      rstd[r] = args.rstd[row];
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const int c = (p * blockDim.x + threadIdx.x) * V;
        if (c >= args.columns) continue;
        dout[r][p] = Pack<T, V>::load_streaming(args.dout + row * args.columns + c);
        inp[r][p] = Pack<T, V>::load_streaming(args.inp + row * args.columns + c);
        if (args.accumulate) old[r][p] = Pack<T, V>::load(args.dinp + row * args.columns + c);
      }
    }
    // Sums over the row of g = dout * weight, and of g * normalised input.
    float2 sums[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      float plain = 0, with_norm = 0;
      const bool real = first + r < args.rows;
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const int c = (p * blockDim.x + threadIdx.x) * V;
        if (c >= args.columns) continue;
        const auto w = Pack<T, V>::load(args.weight + c);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float norm = (inp[r][p][i] - mean[r]) * rstd[r];
          const float g = dout[r][p][i] * w[i];
          plain += g;
          with_norm += g * norm;
          if (real) {
            dbias[p][i] += dout[r][p][i];
            dweight[p][i] += dout[r][p][i] * norm;
          }
        }
      }
      sums[r] = {warp_sum(plain), warp_sum(with_norm)};
      if (lane == 0) shared[phase][r][warp] = sums[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int64_t row = first + r;
      if (row >= args.rows) break;
      float plain = 0, with_norm = 0;
      for (int w = 0; w < warps; ++w) {
        plain += shared[phase][r][w].x;
        with_norm += shared[phase][r][w].y;
      }
      plain /= args.columns;
      with_norm /= args.columns;
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const int c = (p * blockDim.x + threadIdx.x) * V;
        if (c >= args.columns) continue;
        T* target = args.dinp + row * args.columns + c;
        const auto w = Pack<T, V>::load(args.weight + c);
        Pack<T, V> result;
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const float norm = (inp[r][p][i] - mean[r]) * rstd[r];
          const float d = (dout[r][p][i] * w[i] - plain - norm * with_norm) * rstd[r];
          result.set(i, args.accumulate ? old[r][p][i] + d : d);
        }
        result.store(target);
      }
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
    }
  }
}

// Threads per block so that each owns P packs of V columns.
int backward_threads(int columns, int v, int p) {
  return (columns + v * p * 32 - 1) / (v * p * 32) * 32;
}

// As many blocks as run at once: a function of the kernel, the shape and the GPU model.
template <typename T>
int backward_blocks(void (*kernel)(BackwardArgs<T>), int threads, int64_t rows,
                    int multiprocessors) {
  constexpr int kMost = 8;  // per multiprocessor: each leaves a row of partial sums
  int resident = 1;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0));
  const int64_t blocks = int64_t{multiprocessors} * std::clamp(resident, 1, kMost);
  return static_cast<int>(std::clamp<int64_t>(rows / 2, 1, blocks));
}

template <typename T>
struct BackwardLaunch {
  void (*kernel)(BackwardArgs<T>);
  int threads;
};

template <typename T, int V>
BackwardLaunch<T> backward_launch(int columns) {
  if (const int threads = backward_threads(columns, V, 1); threads <= kBackwardThreads) {
    return {backward_kernel<T, V, 1>, threads};
  }
  const int wide = backward_threads(columns, V, 4);
  STRETTO_CHECK(wide <= kBackwardThreads, "LayerNorm backward of {} columns", columns);
  return {backward_kernel<T, V, 4>, wide};
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
                   stream());
  });
}

void CudaBackend::do_layernorm_backward(Tensor dinp, Tensor dweight, Tensor dbias, ConstTensor dout,
                                        ConstTensor inp, ConstTensor mean, ConstTensor rstd,
                                        ConstTensor weight, Grad mode) {
  if (inp.count() == 0) return;
  const int columns = static_cast<int>(inp.last());
  with_float_type(inp.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    BackwardLaunch<T> launch{};
    with_vector<T>(
        can_vectorise<T>(columns, dinp.data(), dout.data(), inp.data(), weight.data()),
        [&](auto vector) { launch = backward_launch<T, decltype(vector)::value>(columns); });
    const int blocks =
        backward_blocks(launch.kernel, launch.threads, inp.rows(), properties_.multiProcessorCount);
    float* parts = scratch<float>(int64_t{2} * blocks * columns);
    float* dbias_parts = dbias.none() ? nullptr : parts + int64_t{blocks} * columns;
    const BackwardArgs<T> args{data_of<T>(dinp),
                               parts,
                               dbias_parts,
                               data_of<T>(dout),
                               data_of<T>(inp),
                               data_of<float>(mean),
                               data_of<float>(rstd),
                               data_of<T>(weight),
                               inp.rows(),
                               columns,
                               mode == Grad::accumulate};
    launch.kernel<<<blocks, launch.threads, 0, stream()>>>(args);
    CUDA_CHECK_LAUNCH();
    sum_parts(dweight, parts, blocks, Grad::accumulate, stream());
    if (dbias) sum_parts(dbias, dbias_parts, blocks, Grad::accumulate, stream());
  });
}

}  // namespace stretto::cuda
