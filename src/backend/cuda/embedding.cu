// Embedding. The gradient of the token table needs no atomics: tokens are sorted (stably, so equal
// tokens stay in batch order), the sorted list is cut into chunks of equal length however often a
// token occurs, each chunk sums its runs, and a run that crosses chunks is completed by the chunk
// where it starts.
#include <cub/device/device_radix_sort.cuh>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"

namespace stretto::cuda {
namespace {

constexpr int kChunk = 32;                  // sorted entries per block
constexpr uint32_t kForeign = 0xffffffffu;  // a token of another shard

template <typename T, int V>
__global__ void forward_kernel(T* out, const int32_t* tokens, const T* wte, const T* wpe,
                               int64_t packs, int columns, int64_t T_len, int64_t vocab_begin,
                               int64_t vocab_rows, int64_t first_position) {
  const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  const int packs_per_row = columns / V;
  const int64_t row = index / packs_per_row;
  const int c = static_cast<int>(index % packs_per_row) * V;
  const int64_t local = tokens[row] - vocab_begin;
  Pack<T, V> x{};
  if (wte != nullptr && local >= 0 && local < vocab_rows) {
    x = Pack<T, V>::load(wte + local * columns + c);
  }
  if (wpe != nullptr) {
    const auto position = Pack<T, V>::load(wpe + (row % T_len + first_position) * columns + c);
#pragma unroll
    for (int i = 0; i < V; ++i) x.set(i, x[i] + position[i]);
  }
  x.store(out + index * V);
}

// Gradients of positions: each element of the table adds up the batch in order.
template <typename T, typename G, int V>
__global__ void position_backward_kernel(G* dwpe, const T* dout, int64_t packs, int columns,
                                         int64_t batch) {
  const int64_t index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  float sum[V] = {};
#pragma unroll 4
  for (int64_t b = 0; b < batch; ++b) {
    const auto d = Pack<T, V>::load_streaming(dout + (b * packs + index) * V);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += d[i];
  }
  G* target = dwpe + index * V;
#pragma unroll
  for (int i = 0; i < V; ++i) target[i] = from_float<G>(as_float(target[i]) + sum[i]);
}

__global__ void sort_keys_kernel(uint32_t* keys, uint32_t* places, const int32_t* tokens, int count,
                                 int64_t vocab_begin, int64_t vocab_rows) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int64_t local = tokens[i] - vocab_begin;
  keys[i] = local >= 0 && local < vocab_rows ? static_cast<uint32_t>(local) : kForeign;
  places[i] = i;
}

// partial (chunks, 2, columns): [0] the run a chunk inherits, [1] the run it leaves unfinished.
template <typename T, typename G, int V>
__global__ void token_backward_kernel(G* dwte, float* partial, const T* dout, const uint32_t* keys,
                                      const uint32_t* places, int count, int columns) {
  const int begin = blockIdx.x * kChunk, end = min(begin + kChunk, count);
  const uint32_t before = begin > 0 ? keys[begin - 1] : kForeign;
  const uint32_t after = end < count ? keys[end] : kForeign;
  for (int c = threadIdx.x * V; c < columns; c += blockDim.x * V) {
    float sum[V] = {};
    int run_begin = begin;
    for (int i = begin; i < end; ++i) {
      const uint32_t key = keys[i];
      if (key == kForeign) break;
      const auto d = Pack<T, V>::load(dout + int64_t(places[i]) * columns + c);
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] += d[j];
      const bool last_of_run = i + 1 == end || keys[i + 1] != key;
      if (!last_of_run) continue;
      const bool inherited = run_begin == begin && key == before;
      const bool unfinished = i + 1 == end && key == after;
      if (inherited || unfinished) {
        float* target = partial + (int64_t(blockIdx.x) * 2 + (inherited ? 0 : 1)) * columns + c;
#pragma unroll
        for (int j = 0; j < V; ++j) target[j] = sum[j];
      } else {
        G* target = dwte + int64_t(key) * columns + c;
#pragma unroll
        for (int j = 0; j < V; ++j) target[j] = from_float<G>(as_float(target[j]) + sum[j]);
      }
#pragma unroll
      for (int j = 0; j < V; ++j) sum[j] = 0;
      run_begin = i + 1;
    }
  }
}

// The chunk in which a crossing run starts adds up its pieces in order.
template <typename G>
__global__ void token_crossing_kernel(G* dwte, const float* partial, const uint32_t* keys,
                                      int count, int columns) {
  const int begin = blockIdx.x * kChunk, end = begin + kChunk;
  if (end >= count) return;
  const uint32_t key = keys[end - 1];
  const bool starts_here = begin == 0 || keys[begin - 1] != key || keys[begin] != key;
  if (key == kForeign || keys[end] != key || !starts_here) return;
  int pieces = 1;
  while (end + pieces * kChunk < count && keys[end + pieces * kChunk - 1] == key &&
         keys[end + pieces * kChunk] == key) {
    ++pieces;
  }
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    float sum = partial[(int64_t(blockIdx.x) * 2 + 1) * columns + c];
#pragma unroll 4
    for (int p = 1; p <= pieces; ++p) {
      sum += partial[(int64_t(blockIdx.x) + p) * 2 * columns + c];
    }
    G* target = dwte + int64_t(key) * columns + c;
    *target = from_float<G>(as_float(*target) + sum);
  }
}

// Calls f(Type<T>, Type<G>) with activation type T and gradient type G, f32 or bf16.
template <typename F>
void with_gradient_type(DType activation, DType gradient, F&& f) {
  STRETTO_CHECK(gradient == DType::f32 || gradient == DType::bf16, "embedding gradients in {}",
                dtype_name(gradient));
  with_float_type(activation, [&](auto tag) {
    gradient == DType::f32 ? f(tag, Type<float>{}) : f(tag, Type<bf16>{});
  });
}

}  // namespace

void CudaBackend::do_embedding_forward(Tensor out, ConstTensor tokens, ConstTensor wte,
                                       ConstTensor wpe, int64_t vocab_begin,
                                       int64_t first_position) {
  if (out.count() == 0) return;
  with_float_type(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_vector<T>(can_vectorise<T>(out.last(), out.data(), wte.data(), wpe.data()),
                   [&](auto vector) {
                     constexpr int V = decltype(vector)::value;
                     const int64_t packs = out.count() / V;
                     forward_kernel<T, V><<<blocks_for(packs, 256), 256, 0, stream()>>>(
                         data_of<T>(out), data_of<int32_t>(tokens), data_of<T>(wte),
                         data_of<T>(wpe), packs, static_cast<int>(out.last()), tokens.last(),
                         vocab_begin, wte.none() ? 0 : wte.rows(), first_position);
                   });
  });
  CUDA_CHECK_LAUNCH();
}

void CudaBackend::do_embedding_backward(Tensor dwte, Tensor dwpe, ConstTensor dout,
                                        ConstTensor tokens, int64_t vocab_begin,
                                        int64_t first_position) {
  const int columns = static_cast<int>(dout.last());
  const int count = static_cast<int>(tokens.count());
  if (count == 0) return;
  if (dwpe) {
    with_gradient_type(dout.dtype(), dwpe.dtype(), [&](auto tag, auto gradient) {
      using T = typename decltype(tag)::type;
      using G = typename decltype(gradient)::type;
      G* target = data_of<G>(dwpe) + first_position * columns;
      with_vector<T>(can_vectorise<T>(columns, dout.data()), [&](auto vector) {
        constexpr int V = decltype(vector)::value;
        const int64_t packs = tokens.last() * columns / V;
        position_backward_kernel<T, G, V><<<blocks_for(packs, 128), 128, 0, stream()>>>(
            target, data_of<T>(dout), packs, columns, tokens.rows());
      });
    });
    CUDA_CHECK_LAUNCH();
  }
  if (dwte.none()) return;

  const int chunks = blocks_for(count, kChunk);
  size_t sort_bytes = 0;
  CUDA_CHECK(cub::DeviceRadixSort::SortPairs(
      nullptr, sort_bytes, static_cast<uint32_t*>(nullptr), static_cast<uint32_t*>(nullptr),
      static_cast<uint32_t*>(nullptr), static_cast<uint32_t*>(nullptr), count, 0, 32, stream()));
  const size_t partial_count = size_t{2} * chunks * columns;
  const size_t list = arena_round(static_cast<size_t>(count) * sizeof(uint32_t));
  char* memory = scratch<char>(
      static_cast<int64_t>(4 * list + arena_round(partial_count * sizeof(float)) + sort_bytes));
  auto* keys = reinterpret_cast<uint32_t*>(memory);
  auto* places = reinterpret_cast<uint32_t*>(memory + list);
  auto* sorted_keys = reinterpret_cast<uint32_t*>(memory + 2 * list);
  auto* sorted_places = reinterpret_cast<uint32_t*>(memory + 3 * list);
  auto* partial = reinterpret_cast<float*>(memory + 4 * list);
  char* sort_memory = memory + 4 * list + arena_round(partial_count * sizeof(float));

  sort_keys_kernel<<<blocks_for(count, 256), 256, 0, stream()>>>(
      keys, places, data_of<int32_t>(tokens), count, vocab_begin, dwte.rows());
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cub::DeviceRadixSort::SortPairs(sort_memory, sort_bytes, keys, sorted_keys, places,
                                             sorted_places, count, 0, 32, stream()));
  with_gradient_type(dout.dtype(), dwte.dtype(), [&](auto tag, auto gradient) {
    using T = typename decltype(tag)::type;
    using G = typename decltype(gradient)::type;
    with_vector<T>(can_vectorise<T>(columns, dout.data()), [&](auto vector) {
      constexpr int V = decltype(vector)::value;
      token_backward_kernel<T, G, V><<<chunks, 128, 0, stream()>>>(
          data_of<G>(dwte), partial, data_of<T>(dout), sorted_keys, sorted_places, count, columns);
    });
    CUDA_CHECK_LAUNCH();
    token_crossing_kernel<G>
        <<<chunks, 128, 0, stream()>>>(data_of<G>(dwte), partial, sorted_keys, count, columns);
    CUDA_CHECK_LAUNCH();
  });
}

}  // namespace stretto::cuda
