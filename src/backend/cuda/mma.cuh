// Tensor-core building blocks of the flash kernels: 16-bit tiles in shared memory, swizzled in
// 16-byte chunks so that ldmatrix and the copies meet no bank conflict, and products of a warp's
// 16-row strips with m16n8k16 instructions, accumulated in f32.
#pragma once

#include "backend/cuda/device.cuh"

namespace stretto::cuda {

// Element offset of 16-byte chunk `chunk` of row `row` in a tile of D columns.
template <int D>
__device__ __forceinline__ int chunk_at(int row, int chunk) {
  return row * D + ((chunk ^ (row & 7)) * 8);
}

// 16 bytes, or zeros when !valid (the address must still be readable).
__device__ __forceinline__ void copy_async_16(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(shared)),
               "l"(global), "r"(valid ? 16 : 0));
}
__device__ __forceinline__ void copy_async_4(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(shared)),
               "l"(global), "r"(valid ? 4 : 0));
}
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;\n"); }
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

// Rows [row, row + kRows) of a matrix with `rows` rows and `columns` <= D columns, zero-padded.
template <typename T, int D, int kRows, int kThreads>
__device__ __forceinline__ void load_tile(T* tile, const T* matrix, int64_t stride, int row,
                                          int rows, int columns) {
  constexpr int kChunks = D / 8;
  static_assert(kRows * kChunks % kThreads == 0);
#pragma unroll
  for (int n = 0; n < kRows * kChunks / kThreads; ++n) {
    const int i = n * kThreads + threadIdx.x;
    const int r = i / kChunks, chunk = i % kChunks;
    const bool valid = row + r < rows && chunk * 8 < columns;
    copy_async_16(tile + chunk_at<D>(r, chunk),
                  valid ? matrix + (row + r) * stride + chunk * 8 : matrix, valid);
  }
}

__device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}
__device__ __forceinline__ void ldmatrix_transposed(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                    bf16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                    f16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// acc[s] (16 x 8N) += A_s B^T: A_s = rows row_a + 16 s of tile a, B = rows row_b .. + 8N of tile b,
// both D columns. S strips share the fragments of B. Element (i, j) of an 8-column tile lies in
// lane 4 (i % 8) + j / 2, register 2 (i / 8) + j % 2.
template <typename T, int D, int S, int N>
__device__ __forceinline__ void multiply_nt(float (&acc)[S][N][4], const T* a, int row_a,
                                            const T* b, int row_b) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t fa[S][4];
#pragma unroll
    for (int s = 0; s < S; ++s) {
      ldmatrix(fa[s], a + chunk_at<D>(row_a + s * 16 + (lane & 15), 2 * k + (lane >> 4)));
    }
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t fb[4];
      ldmatrix(fb, b + chunk_at<D>(row_b + n * 8 + (lane & 7) + ((lane >> 4) << 3),
                                   2 * k + ((lane >> 3) & 1)));
#pragma unroll
      for (int s = 0; s < S; ++s) {
        mma(acc[s][n], fa[s], fb[0], fb[1], T{});
        mma(acc[s][n + 1], fa[s], fb[2], fb[3], T{});
      }
    }
  }
}

// acc[s] (16 x D) += P_s B: P_s (16 x 8N) as accumulator tiles, rounded to T; B = rows
// row_b .. + 8N of tile b.
template <typename T, int D, int S, int N>
__device__ __forceinline__ void multiply_nn(float (&acc)[S][D / 8][4], const float (&p)[S][N][4],
                                            const T* b, int row_b) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
    uint32_t fa[S][4];
#pragma unroll
    for (int s = 0; s < S; ++s) {
      fa[s][0] = pack_pair(p[s][2 * k][0], p[s][2 * k][1], T{});
      fa[s][1] = pack_pair(p[s][2 * k][2], p[s][2 * k][3], T{});
      fa[s][2] = pack_pair(p[s][2 * k + 1][0], p[s][2 * k + 1][1], T{});
      fa[s][3] = pack_pair(p[s][2 * k + 1][2], p[s][2 * k + 1][3], T{});
    }
#pragma unroll
    for (int d = 0; d < D / 8; d += 2) {
      uint32_t fb[4];
      ldmatrix_transposed(fb, b + chunk_at<D>(row_b + k * 16 + (lane & 15), d + (lane >> 4)));
#pragma unroll
      for (int s = 0; s < S; ++s) {
        mma(acc[s][d], fa[s], fb[0], fb[1], T{});
        mma(acc[s][d + 1], fa[s], fb[2], fb[3], T{});
      }
    }
  }
}

// Writes a strip's accumulators, scaled, to rows row0 + 16 s + .. of a matrix of `rows` rows.
template <typename T, int D, int S>
__device__ __forceinline__ void store_strip(T* matrix, int64_t stride, int row0, int rows,
                                            int columns, const float (&acc)[S][D / 8][4],
                                            const float (&scale)[S][2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int s = 0; s < S; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + s * 16 + half * 8 + lane / 4;
      if (row >= rows) continue;
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        const int column = d * 8 + (lane % 4) * 2;
        if (column >= columns) continue;
        *reinterpret_cast<uint32_t*>(matrix + row * stride + column) = pack_pair(
            acc[s][d][2 * half] * scale[s][half], acc[s][d][2 * half + 1] * scale[s][half], T{});
      }
    }
  }
}

}  // namespace stretto::cuda
