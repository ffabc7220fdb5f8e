// A checksum of a tensor's bits (base/checksum.h), in one pass over it.
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.cuh"
#include "base/checksum.h"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 2048;  // at most
constexpr int kPacksPerThread = 4;

using Sum = unsigned long long;

template <typename Bits, int V>
__global__ void __launch_bounds__(kThreads)
    checksum_kernel(Sum* sum, const Bits* values, int64_t packs) {
  Sum mine = 0;
#pragma unroll 4
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < packs;
       i += int64_t(gridDim.x) * kThreads) {
    const auto pack = Pack<Bits, V>::load_streaming(values + i * V);
#pragma unroll
    for (int j = 0; j < V; ++j) mine += checksum_term(pack.value[j], uint64_t(i * V + j));
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);  // whole numbers: in any order
}

}  // namespace

void CudaBackend::do_checksum(Tensor sum, ConstTensor values) {
  CUDA_CHECK(cudaMemsetAsync(sum.data(), 0, sizeof(Sum), stream()));
  if (values.count() == 0) return;
  const auto run = [&](auto tag) {
    using Bits = decltype(tag);
    with_vector<Bits>(can_vectorise<Bits>(values.count(), values.data()), [&](auto vector) {
      constexpr int V = decltype(vector)::value;
      const int64_t packs = values.count() / V;
      const int blocks = std::min(kBlocks, blocks_for(packs, kThreads * kPacksPerThread));
      checksum_kernel<Bits, V><<<blocks, kThreads, 0, stream()>>>(
          static_cast<Sum*>(sum.data()), static_cast<const Bits*>(values.data()), packs);
    });
  };
  dtype_size(values.dtype()) == 4 ? run(uint32_t{}) : run(uint16_t{});
  CUDA_CHECK_LAUNCH();
}

}  // namespace stretto::cuda
