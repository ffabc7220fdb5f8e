#include <cuda_fp8.h>

#include <algorithm>

#include "backend/cuda/device.cuh"
#include "backend/cuda/quantise.h"

namespace stretto::cuda {
namespace {

constexpr int kTile = 64;
constexpr int kChunk = 16;  // elements per thread: 16 bytes of the 8-bit type

template <typename F8>
constexpr float kLargest = 448.0f;
template <>
constexpr float kLargest<__nv_fp8_e5m2> = 57344.0f;

// The maximum does not depend on the order, so atomics are harmless here: the bits of
// non-negative floats compare like integers. NaN has the largest bits and comes through.
__global__ void __launch_bounds__(256) amax_kernel(uint32_t* amax, const bf16* x, int64_t packs) {
  uint32_t most = 0;
#pragma unroll 4
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < packs;
       i += int64_t(gridDim.x) * blockDim.x) {
    const auto pack = Pack<bf16, 8>::load(x + i * 8);
#pragma unroll
    for (int j = 0; j < 8; ++j) most = max(most, __float_as_uint(pack[j]) & 0x7fffffffu);
  }
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % 32 == 0) atomicMax(amax, most);
}

// Four rows of four bytes become four columns.
__device__ __forceinline__ void transpose_bytes(uint32_t (&x)[4]) {
  const uint32_t low01 = __byte_perm(x[0], x[1], 0x5140), high01 = __byte_perm(x[0], x[1], 0x7362);
  const uint32_t low23 = __byte_perm(x[2], x[3], 0x5140), high23 = __byte_perm(x[2], x[3], 0x7362);
  x[0] = __byte_perm(low01, low23, 0x5410);
  x[1] = __byte_perm(low01, low23, 0x7632);
  x[2] = __byte_perm(high01, high23, 0x5410);
  x[3] = __byte_perm(high01, high23, 0x7632);
}

// One 64 x 64 tile per block; each thread converts 16 neighbours of a row, and for the transposed
// copy turns a square of 4 x 4 taken from shared memory.
template <typename F8>
__global__ void __launch_bounds__(kTile* kTile / kChunk)
    quantise_kernel(F8* normal, F8* transposed, const float* amax, float* inverse, const bf16* x,
                    int64_t rows, int64_t columns) {
  union alignas(16) Chunk {
    __device__ Chunk() {}
    F8 value[kChunk];
    uint32_t words[kChunk / 4];
    int4 all;
  };
  __shared__ uint32_t tile[kTile][kTile / 4 + 1];
  const float largest = *amax;
  // Its inverse must be a number, too: 0 times infinity would be none.
  const float scale = largest > 0 ? fminf(kLargest<F8> / largest, 1e37f) : 1.0f;
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *inverse = 1.0f / scale;
  const int line = threadIdx.x / (kTile / kChunk);
  const int offset = threadIdx.x % (kTile / kChunk) * kChunk;
  const int64_t row = int64_t(blockIdx.y) * kTile, column = int64_t(blockIdx.x) * kTile;
  if (row + line < rows && column + offset < columns) {
    const int64_t at = (row + line) * columns + column + offset;
    const auto low = Pack<bf16, 8>::load(x + at), high = Pack<bf16, 8>::load(x + at + 8);
    Chunk chunk;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      chunk.value[i] = F8(low[i] * scale);
      chunk.value[i + 8] = F8(high[i] * scale);
    }
    if (normal != nullptr) *reinterpret_cast<int4*>(normal + at) = chunk.all;
    if (transposed != nullptr) {
#pragma unroll
      for (int i = 0; i < kChunk / 4; ++i) tile[line][offset / 4 + i] = chunk.words[i];
    }
  }
  if (transposed == nullptr) return;
  __syncthreads();
  const int down = threadIdx.x % (kTile / 4) * 4, across = threadIdx.x / (kTile / 4);
  if (column + across * 4 >= columns || row + down >= rows) return;
  uint32_t square[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) square[i] = tile[down + i][across];
  transpose_bytes(square);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    F8* target = transposed + (column + across * 4 + i) * rows + row + down;
    *reinterpret_cast<uint32_t*>(target) = square[i];
  }
}

}  // namespace

void quantise(void* normal, void* transposed, float* amax, float* inverse, ConstTensor x,
              DType type, cudaStream_t stream) {
  const int64_t rows = x.rows(), columns = x.last(), packs = x.count() / 8;
  STRETTO_CHECK(x.dtype() == DType::bf16 && rows % kChunk == 0 && columns % kChunk == 0,
                "{} of {} in 8 bits", x.shape().text(), dtype_name(x.dtype()));
  CUDA_CHECK(cudaMemsetAsync(amax, 0, sizeof(float), stream));
  const auto* source = data_of<bf16>(x);
  amax_kernel<<<std::min(1024, blocks_for(packs, 256)), 256, 0, stream>>>(
      reinterpret_cast<uint32_t*>(amax), source, packs);
  CUDA_CHECK_LAUNCH();
  const dim3 grid(static_cast<unsigned>(blocks_for(columns, kTile)),
                  static_cast<unsigned>(blocks_for(rows, kTile)));
  const auto launch = [&](auto tag) {
    using F8 = typename decltype(tag)::type;
    quantise_kernel<F8><<<grid, kTile * kTile / kChunk, 0, stream>>>(
        static_cast<F8*>(normal), static_cast<F8*>(transposed), amax, inverse, source, rows,
        columns);
  };
  type == DType::f8e4m3 ? launch(Type<__nv_fp8_e4m3>{}) : launch(Type<__nv_fp8_e5m2>{});
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
