// Hopper's own instructions: copies of whole tiles between global and shared memory (TMA), barriers
// that count their bytes, and products of a group of four warps whose operands lie in shared
// memory. Tiles have rows of 128 bytes and are swizzled: 16-byte column c of row r lies at c ^ (r %
// 8). Only for code under __CUDA_ARCH_FEAT_SM90_ALL.
#pragma once

#include <cuda.h>

#include <algorithm>

#include "backend/cuda/device.cuh"

namespace stretto::cuda::hopper {

constexpr int kAlignment = 1024;  // of tiles in shared memory
constexpr int kGroup = 128;       // threads that multiply together: four warps
constexpr int kWarps = kGroup / 32;
// Tiles of 64 x 64, with as many columns as a copy can swizzle.
constexpr int kBoxSide = 64, kBoxBytes = kBoxSide * kBoxSide * 2;

// An offset into `raw`, so that the compiler sees shared memory.
template <typename Memory>
__device__ __forceinline__ Memory& aligned(char* raw) {
  return *reinterpret_cast<Memory*>(raw + (-shared_address(raw) & (kAlignment - 1)));
}

inline int multiprocessors() {
  int device = 0, count = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

// Blocks that take `operands.items` by turns, at most one on a multiprocessor. `bytes`: of shared
// memory, apart from what aligns it.
template <typename Operands>
void launch(void (*kernel)(Operands), int threads, size_t bytes, const Operands& operands,
            cudaStream_t stream) {
  bytes += kAlignment - 1;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)));
  const int blocks = std::min(multiprocessors(), operands.items);
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), bytes, stream>>>(
      operands);
  CUDA_CHECK_LAUNCH();
}

struct Barrier {
  uint64_t word;

  __device__ __forceinline__ void init(int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(count));
  }
  __device__ __forceinline__ void expect(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // At the same barrier of another block of the cluster.
  __device__ __forceinline__ void arrive_at(uint32_t block) {
    asm volatile(
        "{\n.reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(this)),
        "r"(block)
        : "memory");
  }
  __device__ __forceinline__ void wait(uint32_t parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "AGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra ARRIVED;\n"
        "bra AGAIN;\n"
        "ARRIVED:\n}" ::"r"(shared_address(this)),
        "r"(parity)
        : "memory");
  }
};

// Number n of something that goes round in kCount places.
template <int kCount>
struct Turn {
  uint32_t n = 0;
  __device__ __forceinline__ int place() const { return int(n % kCount); }
  __device__ __forceinline__ uint32_t parity() const { return n / kCount & 1; }
};

// By the thread that made them, before others of the block or the cluster are told to go on.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void fetch(void* to, const CUtensorMap* map, int x, int y,
                                      Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y)
      : "memory");
}
// Into the same place of the first kBlocks blocks of the cluster.
template <int kBlocks>
__device__ __forceinline__ void fetch_for_all(void* to, const CUtensorMap* map, int x, int y,
                                              Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "h"(uint16_t((1 << kBlocks) - 1))
      : "memory");
}
// `bytes` as they are.
__device__ __forceinline__ void copy(void* to, const void* from, int bytes, Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
// What is beyond the matrix is not written. Stores of a thread are counted, in order.
__device__ __forceinline__ void store(const CUtensorMap* map, int x, int y, const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
      "r"(shared_address(from)), "r"(x), "r"(y)
      : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Added to `bytes` of sums instead, counted as stores are.
__device__ __forceinline__ void add_to(float* sums, const void* from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(sums)),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// `bytes` as they are.
__device__ __forceinline__ void store_to(float* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until all but kLast of them have left shared memory.
template <int kLast>
__device__ __forceinline__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLast) : "memory");
}
// Until all of them are in global memory.
__device__ __forceinline__ void wait_for_arrivals() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Copies to and from global memory before it come before what this thread does later, and the other
// way round.
__device__ __forceinline__ void order_copies() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}
// What this thread did to shared memory comes before what copies do there later.
__device__ __forceinline__ void order_before_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The same in all lanes, as the compiler then knows.
__device__ __forceinline__ uint32_t uniform(uint32_t x) { return __shfl_sync(0xffffffffu, x, 0); }
__device__ __forceinline__ uint32_t block_in_cluster() {
  uint32_t block;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
  return block;
}
__device__ __forceinline__ void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// Of the registers of a group that has too many, and to one that has too few.
template <int kCount>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
// Two groups multiply, with most of the registers; threads of a third fetch for them.
template <typename Fetch, typename Multiply>
__device__ __forceinline__ void part_ways(Fetch fetch, Multiply multiply) {
  static_assert(24 + 2 * 240 <= 3 * (65536 / (3 * kGroup) / 8 * 8));
  const int group = int(uniform(threadIdx.x / kGroup));
  if (group == 2) {
    give_registers<24>();
    fetch(int(threadIdx.x % kGroup));
  } else {
    take_registers<240>();
    multiply(group);
  }
}
template <int kThreads>
__device__ __forceinline__ void synchronize_group(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

// Four 8 x 8 matrices of 16-bit values, two of a row in each lane's word; `row` is the address of
// this lane's row: 8 lanes for each matrix.
__device__ __forceinline__ void store_matrices(uint32_t row, const uint32_t (&w)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
               : "memory");
}
// The inverse.
__device__ __forceinline__ void load_matrices(uint32_t (&w)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "r"(row)
               : "memory");
}

// A tile as an operand, k contiguous: groups of 8 rows lie 1024 bytes apart.
__device__ __forceinline__ uint64_t operand(uint32_t address) {
  return uint64_t((address & 0x3FFFF) >> 4) | (uint64_t{1} << 16) | (uint64_t{1024 >> 4} << 32) |
         (uint64_t{1} << 62);
}
// The same with n contiguous: rows are k, and boxes of 64 columns lie kBox bytes apart.
template <int kBox>
__device__ __forceinline__ uint64_t operand_by_columns(uint32_t address) {
  return uint64_t((address & 0x3FFFF) >> 4) | (uint64_t{kBox >> 4} << 16) |
         (uint64_t{1024 >> 4} << 32) | (uint64_t{1} << 62);
}

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLast>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLast) : "memory");
}

// The registers of a result, as products write it: their numbers in the instruction, and what they
// are.
#define STRETTO_NUMBERS_32                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define STRETTO_NUMBERS_64                                                           \
  STRETTO_NUMBERS_32                                                                 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define STRETTO_NUMBERS_96                                                           \
  STRETTO_NUMBERS_64                                                                 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define STRETTO_RESULT_8(d, i)                                                                  \
  "+f"((d)[i]), "+f"((d)[(i) + 1]), "+f"((d)[(i) + 2]), "+f"((d)[(i) + 3]), "+f"((d)[(i) + 4]), \
      "+f"((d)[(i) + 5]), "+f"((d)[(i) + 6]), "+f"((d)[(i) + 7])
#define STRETTO_RESULT_32(d) \
  STRETTO_RESULT_8(d, 0), STRETTO_RESULT_8(d, 8), STRETTO_RESULT_8(d, 16), STRETTO_RESULT_8(d, 24)
#define STRETTO_RESULT_64(d)                                                                       \
  STRETTO_RESULT_32(d), STRETTO_RESULT_8(d, 32), STRETTO_RESULT_8(d, 40), STRETTO_RESULT_8(d, 48), \
      STRETTO_RESULT_8(d, 56)
#define STRETTO_RESULT_96(d)                                                                       \
  STRETTO_RESULT_64(d), STRETTO_RESULT_8(d, 64), STRETTO_RESULT_8(d, 72), STRETTO_RESULT_8(d, 80), \
      STRETTO_RESULT_8(d, 88)

// d (64, 192) = or += a (64, 16) b (192, 16)^T; kByColumns: b is (16, 192), n contiguous.
template <bool kByColumns = false>
__device__ __forceinline__ void multiply(float (&d)[96], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" STRETTO_NUMBERS_96
      "}, %96, %97, add, 1, 1, 0, %99;\n}\n"
      : STRETTO_RESULT_96(d)
      : "l"(a), "l"(b), "r"(add), "n"(kByColumns ? 1 : 0));
}

// What products wrote is read only after this, which follows the wait for them.
template <int kCount>
__device__ __forceinline__ void settle(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace stretto::cuda::hopper
