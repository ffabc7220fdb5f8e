#include <algorithm>

#include "backend/cuda/column_sum.h"
#include "backend/cuda/device.cuh"
#include "backend/cuda/gelu.cuh"

namespace stretto::cuda {
namespace {

constexpr int kLanes = 32;  // column packs of a block: one warp reads 512 contiguous bytes
constexpr int kRows = 8;    // rows that a block works on at once
constexpr int kAhead = 4;   // of a thread's own rows: loaded before the first is written

// Grid: (column packs / 32, stripes). Each thread sums its V columns down its stripe's rows.
template <typename T, int V, Gelu kGelu, GeluKeeps kKeeps>
__global__ void __launch_bounds__(kLanes* kRows, 3)
    column_sum_kernel(float* partial, T* x, const T* pre, T* act, int64_t rows, int64_t n,
                      int64_t pitch) {
  const int64_t column = (int64_t(blockIdx.x) * kLanes + threadIdx.x) * V;
  const int64_t per_stripe = (rows + gridDim.y - 1) / gridDim.y;
  const int64_t begin = blockIdx.y * per_stripe;
  const int64_t end = min(begin + per_stripe, rows);
  float sum[V] = {};
  if (column < n) {
    for (int64_t first = begin + threadIdx.y; first < end; first += kRows * kAhead) {
      Pack<T, V> packs[kAhead], before[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int64_t row = first + k * kRows;
        if (row >= end) break;
        packs[k] = Pack<T, V>::load_streaming(x + row * pitch + column);
        if constexpr (kGelu != Gelu::none) {
          before[k] = Pack<T, V>::load_streaming(pre + row * pitch + column);
        }
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int64_t row = first + k * kRows;
        if (row >= end) break;
        if constexpr (kGelu != Gelu::none) {
          float gradient[V], value[V];
#pragma unroll
          for (int i = 0; i < V; ++i) {
            if constexpr (kKeeps == GeluKeeps::value) {
              const GeluAt<kGelu> at(before[k][i]);
              gradient[i] = packs[k][i] * as_float(from_float<T>(at.derivative));
              value[i] = at.value;
            } else {
              gradient[i] = packs[k][i] * before[k][i];
            }
          }
          packs[k].set_all(gradient);
          packs[k].store(x + row * pitch + column);
          if (kKeeps == GeluKeeps::value && act != nullptr) {
            before[k].set_all(value);
            before[k].store(act + row * pitch + column);
          }
        }
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] += packs[k][i];
      }
    }
  }
  if (partial == nullptr) return;
  __shared__ float shared[kRows][kLanes * V];
#pragma unroll
  for (int i = 0; i < V; ++i) shared[threadIdx.y][i * kLanes + threadIdx.x] = sum[i];
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    float total = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) total += shared[r][i * kLanes + threadIdx.x];
    partial[blockIdx.y * n + column + i] = total;
  }
}

constexpr int kMostResults = 3;

template <typename T>
struct Results {
  T* out[kMostResults];
  const float* partial[kMostResults];
};

// 32 threads share a column: the parts are few hundred, and one thread alone would wait for each.
template <typename T>
__global__ void __launch_bounds__(1024) sum_parts_kernel(const __grid_constant__ Results<T> results,
                                                         int parts, int64_t n, bool accumulate) {
  T* out = results.out[blockIdx.y];
  const float* partial = results.partial[blockIdx.y];
  const int64_t column = int64_t(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0;
  if (column < n) {
#pragma unroll 8
    for (int part = threadIdx.y; part < parts; part += 32) sum += partial[part * n + column];
  }
  __shared__ float shared[32][33];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const int64_t owned = int64_t(blockIdx.x) * 32 + threadIdx.y;
  const float total = warp_sum(shared[threadIdx.x][threadIdx.y]);
  if (threadIdx.x != 0 || owned >= n) return;
  out[owned] = from_float<T>(accumulate ? as_float(out[owned]) + total : total);
}

template <typename T, int V, Gelu kGelu>
__global__ void bias_gelu_kernel(T* x, const T* bias, int64_t packs, int64_t n) {
  const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  auto pack = Pack<T, V>::load(x + index * V);
  if (bias != nullptr) {
    const auto b = Pack<T, V>::load(bias + index * V % n);
#pragma unroll
    for (int i = 0; i < V; ++i) pack.set(i, pack[i] + b[i]);
  }
  if constexpr (kGelu != Gelu::none) {
#pragma unroll
    for (int i = 0; i < V; ++i) pack.set(i, gelu<kGelu>(pack[i]));
  }
  pack.store(x + index * V);
}

// Of the first n columns of x.
void launch_column_sum(float* partial, int stripes, Tensor x, int64_t n, const BeforeGelu& before,
                       cudaStream_t stream) {
  const int64_t rows = x.rows(), pitch = x.last();
  with_float_type(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const void *pre = before.pre.data(), *act = before.act.data();
    const bool wide = can_vectorise<T>(n, x.data(), pre, act) && can_vectorise<T>(pitch);
    with_vector<T>(wide, [&](auto vector) {
      constexpr int V = decltype(vector)::value;
      const dim3 grid(blocks_for(n, kLanes * V), stripes), block(kLanes, kRows);
      const auto launch = [&](auto form, auto keeps) {
        column_sum_kernel<T, V, decltype(form)::value, decltype(keeps)::value>
            <<<grid, block, 0, stream>>>(partial, data_of<T>(x), static_cast<const T*>(pre),
                                         static_cast<T*>(before.act.data()), rows, n, pitch);
      };
      using Kept = std::integral_constant<GeluKeeps, GeluKeeps::derivative>;
      if (before.form != Gelu::none && before.keeps == GeluKeeps::derivative) {
        return launch(std::integral_constant<Gelu, Gelu::tanh>(), Kept());  // of any form
      }
      with_gelu(before.form, [&](auto form) {
        launch(form, std::integral_constant<GeluKeeps, GeluKeeps::value>());
      });
    });
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace

int column_sum_stripes(int64_t rows, int64_t n) {
  // About a thousand blocks fill any GPU; a stripe of fewer than 64 rows is not worth its sum.
  const int64_t column_blocks = std::max<int64_t>(1, n / 256);
  return static_cast<int>(
      std::clamp<int64_t>(1024 / column_blocks, 1, std::max<int64_t>(1, rows / 64)));
}

void column_sum_partials(float* partial, Tensor x, const BeforeGelu& before, cudaStream_t stream) {
  if (x.count() == 0) {
    CUDA_CHECK(cudaMemsetAsync(partial, 0, static_cast<size_t>(x.last()) * sizeof(float), stream));
    return;
  }
  launch_column_sum(partial, column_sum_stripes(x.rows(), x.last()), x, x.last(), before, stream);
}

void leading_column_sum_partials(float* partial, ConstTensor x, int64_t n, cudaStream_t stream) {
  launch_column_sum(partial, column_sum_stripes(x.rows(), n),
                    Tensor(const_cast<void*>(x.data()), x.dtype(), x.shape()), n, {}, stream);
}

void gelu_backward(Tensor x, const BeforeGelu& before, cudaStream_t stream) {
  if (x.count() == 0) return;
  launch_column_sum(nullptr, column_sum_stripes(x.rows(), x.last()), x, x.last(), before, stream);
}

void sum_parts(Tensor out, const float* partial, int parts, Grad mode, cudaStream_t stream) {
  sum_parts({{out, partial}}, parts, mode, stream);
}

void sum_parts(std::initializer_list<PartialSums> sums, int parts, Grad mode, cudaStream_t stream) {
  const Tensor& like = sums.begin()->out;
  const int64_t n = like.count();
  with_float_type(like.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Results<T> results{};
    unsigned count = 0;
    for (const PartialSums& s : sums) {
      if (s.out.none()) continue;
      STRETTO_CHECK(s.out.count() == n && s.out.dtype() == like.dtype() && count < kMostResults,
                    "sums of {} and {} columns", n, s.out.count());
      results.out[count] = data_of<T>(s.out);
      results.partial[count++] = s.partial;
    }
    const dim3 grid(static_cast<unsigned>(blocks_for(n, 32)), count);
    sum_parts_kernel<T>
        <<<grid, dim3(32, 32), 0, stream>>>(results, parts, n, mode == Grad::accumulate);
  });
  CUDA_CHECK_LAUNCH();
}

void bias_gelu(Tensor x, ConstTensor bias, Gelu form, cudaStream_t stream) {
  if (x.count() == 0) return;
  with_float_type(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* b = bias.none() ? nullptr : data_of<T>(bias);
    with_vector<T>(can_vectorise<T>(x.last(), x.data(), bias.data()), [&](auto vector) {
      constexpr int V = decltype(vector)::value;
      const int64_t packs = x.count() / V;
      with_gelu(form, [&](auto gelu_form) {
        bias_gelu_kernel<T, V, decltype(gelu_form)::value>
            <<<blocks_for(packs, 256), 256, 0, stream>>>(data_of<T>(x), b, packs, x.last());
      });
    });
  });
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
