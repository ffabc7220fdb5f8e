// Products of 64 x 64 and 64 x 128 by a group of four warps, whose operands lie in boxes (64
// columns of bf16, 128 bytes a row, swizzled) or in registers. Only for code under
// __CUDA_ARCH_FEAT_SM90_ALL.
#pragma once

#include "backend/cuda/hopper.cuh"

namespace stretto::cuda::hopper {

// A box of 64 columns as an operand of 64 rows, or columns: the low word, the only one that depends
// on where it lies.
__device__ __forceinline__ uint32_t box_operand(const void* box) {
  return uint32_t(operand(shared_address(box)));
}
constexpr uint32_t kBoxOperandHigh = (1024 >> 4) | (1u << 30);
constexpr uint32_t kBox = kBoxBytes >> 4;  // from a box to the next

// d (64, 64) = or += a (64, 16) b (64, 16)^T of boxes. By columns: a is (16, 64), b is (16, 64).
template <bool kAByColumns, bool kBByColumns>
__device__ __forceinline__ void multiply_boxes(float (&d)[32], uint32_t a, uint32_t b, int add) {
  asm volatile(
      "{\n.reg .pred add;\n.reg .b64 a, b;\nsetp.ne.b32 add, %34, 0;\n"
      "mov.b64 a, {%32, %37};\nmov.b64 b, {%33, %37};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" STRETTO_NUMBERS_32
      "}, a, b, add, 1, 1, %35, %36;\n}\n"
      : STRETTO_RESULT_32(d)
      : "r"(a), "r"(b), "r"(add), "n"(kAByColumns ? 1 : 0), "n"(kBByColumns ? 1 : 0),
        "n"(kBoxOperandHigh));
}
// The same with a in registers, as results lie but rounded.
template <bool kByColumns>
__device__ __forceinline__ void multiply_box(float (&d)[32], const uint32_t (&a)[4], uint32_t b,
                                             int add) {
  asm volatile(
      "{\n.reg .pred add;\n.reg .b64 b;\nsetp.ne.b32 add, %37, 0;\n"
      "mov.b64 b, {%36, %38};\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" STRETTO_NUMBERS_32
      "}, {%32, %33, %34, %35}, b, add, 1, 1, %39;\n}\n"
      : STRETTO_RESULT_32(d)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(add), "n"(kBoxOperandHigh),
        "n"(kByColumns ? 1 : 0));
}

// d (64, 128) = or += a (64, 16) b (16, 128), b in two boxes.
__device__ __forceinline__ void multiply_two_boxes(float (&d)[64], const uint32_t (&a)[4],
                                                   uint32_t b, int add) {
  asm volatile(
      "{\n.reg .pred add;\n.reg .b64 b;\nsetp.ne.b32 add, %69, 0;\n"
      "mov.b64 b, {%68, %70};\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" STRETTO_NUMBERS_64
      "}, {%64, %65, %66, %67}, b, add, 1, 1, 1;\n}\n"
      : STRETTO_RESULT_64(d)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(add), "n"(kBoxOperandHigh));
}

// d (64, 128) = or += a (64, 16) b (128, 16)^T of boxes, b of 128 rows.
__device__ __forceinline__ void multiply_long_boxes(float (&d)[64], uint32_t a, uint32_t b,
                                                    int add) {
  asm volatile(
      "{\n.reg .pred add;\n.reg .b64 a, b;\nsetp.ne.b32 add, %66, 0;\n"
      "mov.b64 a, {%64, %67};\nmov.b64 b, {%65, %67};\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" STRETTO_NUMBERS_64
      "}, a, b, add, 1, 1, 0, 0;\n}\n"
      : STRETTO_RESULT_64(d)
      : "r"(a), "r"(b), "r"(add), "n"(kBoxOperandHigh));
}

// Steps of 16 of what products sum over, in words of 16 bytes: along rows, and from row to row.
constexpr uint32_t kAlong = 32 >> 4, kAcross = 16 * 128 >> 4;

// d (64, 64) += a b^T.
__device__ __forceinline__ void add_rows(float (&d)[32], uint32_t a, uint32_t b) {
  begin_products();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    multiply_boxes<false, false>(d, a + i * kAlong, b + i * kAlong, 1);
  }
  commit_products();
}
// d (64, 64) = a b^T with a in registers.
__device__ __forceinline__ void multiply_rows(float (&d)[32], const uint32_t (&a)[4][4],
                                              uint32_t b) {
  begin_products();
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply_box<false>(d, a[i], b + i * kAlong, i > 0);
  commit_products();
}
// d (64, 64) = or += a b.
__device__ __forceinline__ void add_product(float (&d)[32], const uint32_t (&a)[4][4], uint32_t b,
                                            bool add) {
  begin_products();
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply_box<true>(d, a[i], b + i * kAcross, add || i > 0);
  commit_products();
}
// d (64, 128) = or += a b.
__device__ __forceinline__ void add_wide_product(float (&d)[64], const uint32_t (&a)[4][4],
                                                 uint32_t b, bool add) {
  const uint32_t two = b + ((kBox - 1) << 16);  // the second box is where the operand says
  begin_products();
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply_two_boxes(d, a[i], two + i * kAcross, add || i > 0);
  commit_products();
}

// d (64, 64) = or += a^T b, with kCount rows of both.
template <int kCount>
__device__ __forceinline__ void multiply_columns(float (&d)[32], uint32_t a, uint32_t b, bool add) {
  begin_products();
#pragma unroll
  for (int i = 0; i < kCount / 16; ++i) {
    multiply_boxes<true, true>(d, a + i * kAcross, b + i * kAcross, add || i > 0);
  }
  commit_products();
}

// 64 x 64 results as operands in registers, or as words to be stored.
__device__ __forceinline__ void pack(uint32_t (&a)[4][4], const float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = pack_pair(d[2 * i], d[2 * i + 1], bf16{});
}

// A thread of a group of four warps. Its share of 64 x 64 results: rows 16 warp + lane / 4 and + 8,
// and of every eight columns two, from lane % 4 * 2.
struct Place {
  int row, column;
  uint32_t corner;  // of what this lane stores and loads of a box
  bool leads;       // its warp

  __device__ __forceinline__ Place() {
    uint32_t thread;  // once: to ask again takes long
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    const uint32_t lane = thread % 32, warp = thread % 128 / 32;
    row = int(warp * 16 + lane / 4);
    column = int(lane % 4 * 2);
    corner = (warp * 16 + lane % 16) * 128 + ((lane / 16) ^ (lane % 8)) * 16;
    leads = lane == 0;
  }
  __device__ __forceinline__ void arrive(Barrier& barrier) const {
    __syncwarp();
    if (leads) barrier.arrive();
  }
  __device__ __forceinline__ void store_box(char* box, const uint32_t (&a)[4][4]) const {
    const uint32_t at = shared_address(box) + corner;
#pragma unroll
    for (int i = 0; i < 4; ++i) store_matrices(at ^ uint32_t(i * 32), a[i]);
  }
  __device__ __forceinline__ void load_box(uint32_t (&a)[4][4], const char* box) const {
    const uint32_t at = shared_address(box) + corner;
#pragma unroll
    for (int i = 0; i < 4; ++i) load_matrices(a[i], at ^ uint32_t(i * 32));
  }
  // A value for each column: of every eight the two of this lane.
  __device__ __forceinline__ void load_pairs(float2 (&pairs)[8], const float (&from)[64]) const {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      pairs[n] = *reinterpret_cast<const float2*>(&from[n * 8 + column]);
    }
  }
  // The same for both rows.
  __device__ __forceinline__ void load_columns(float (&d)[32], const float (&from)[64]) const {
    float2 pairs[8];
    load_pairs(pairs, from);
#pragma unroll
    for (int i = 0; i < 32; ++i) d[i] = i % 2 == 0 ? pairs[i / 4].x : pairs[i / 4].y;
  }
};

}  // namespace stretto::cuda::hopper
