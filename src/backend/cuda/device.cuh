// What every kernel file shares: element conversions, 16-byte packs, warp and block sums, and the
// step from a run-time element type to a template argument.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "backend/cuda/cuda_check.h"
#include "tensor/tensor.h"

namespace stretto::cuda {

using bf16 = __nv_bfloat16;
using f16 = __half;

__device__ __forceinline__ float as_float(float x) { return x; }
__device__ __forceinline__ float as_float(bf16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float as_float(f16 x) { return __half2float(x); }

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float x) {
  return __float2half_rn(x);
}

template <size_t kBytes>
struct Word;
template <>
struct Word<16> {
  using type = int4;
};
template <>
struct Word<8> {
  using type = int2;
};
template <>
struct Word<4> {
  using type = int;
};
template <>
struct Word<2> {
  using type = short;
};

// V elements moved by one access. V is 16 / sizeof(T) where rows allow it, else 1. Memory is
// touched through one word of that size: a copy of the struct may become an access per element.
template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
  T value[V];
  using Whole = typename Word<sizeof(T) * V>::type;

  __device__ __forceinline__ static Pack of(Whole word) {
    Pack out;
    *reinterpret_cast<Whole*>(&out) = word;
    return out;
  }
  __device__ __forceinline__ Whole word() const { return *reinterpret_cast<const Whole*>(this); }

  __device__ __forceinline__ static Pack load(const T* p) {
    return of(*reinterpret_cast<const Whole*>(p));
  }
  // Read once and not again soon: keeps the caches for what is.
  __device__ __forceinline__ static Pack load_streaming(const T* p) {
    return of(__ldcs(reinterpret_cast<const Whole*>(p)));
  }
  // Global memory only.
  __device__ __forceinline__ void store(T* p) const {
    const Whole whole = word();
    if constexpr (sizeof(Whole) == 16) {
      asm volatile("st.global.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
                   "r"(whole.x), "r"(whole.y), "r"(whole.z), "r"(whole.w)
                   : "memory");
    } else {
      *reinterpret_cast<Whole*>(p) = whole;
    }
  }
  __device__ __forceinline__ void store_streaming(T* p) const {
    __stcs(reinterpret_cast<Whole*>(p), word());
  }
  __device__ __forceinline__ float operator[](int i) const { return as_float(value[i]); }
  __device__ __forceinline__ void set(int i, float x) { value[i] = from_float<T>(x); }
  // Two at a time: the instruction for one alone has a small part of the rate, and is what set()
  // becomes where the rounded values are also read.
  __device__ __forceinline__ void set_all(const float (&x)[V]) {
    if constexpr (sizeof(T) == 2 && V % 2 == 0) {
#pragma unroll
      for (int i = 0; i < V; i += 2) {
        if constexpr (std::is_same_v<T, bf16>) {
          const __nv_bfloat162 two = __floats2bfloat162_rn(x[i], x[i + 1]);
          value[i] = two.x;
          value[i + 1] = two.y;
        } else {
          const __half2 two = __floats2half2_rn(x[i], x[i + 1]);
          value[i] = two.x;
          value[i + 1] = two.y;
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) set(i, x[i]);
    }
  }
};

constexpr float kLog2e = 1.4426950408889634f;

// One instruction: minus infinity gives zero, and so do results below the normal range.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// NaN comes through, unlike fminf and fmaxf.
__device__ __forceinline__ float at_least(float x, float low) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(low));
  return y;
}
__device__ __forceinline__ float at_most(float x, float high) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(high));
  return y;
}

// Two rounded values in a word.
__device__ __forceinline__ uint32_t pack_pair(float low, float high, bf16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ uint32_t pack_pair(float low, float high, f16) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Maximum and sum over the four lanes that share a row of a tensor core's result.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

template <int kLanes = 32>  // of neighbours
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, offset);
  }
  return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  }
  return x;
}

__device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// Sum over the block, known to every thread; the order depends on the block's size alone.
// `shared` holds 32 values and may be reused after the caller's next barrier.
template <typename F>
__device__ __forceinline__ F block_sum(F x, F* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
  x = warp_sum(x);
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  x = lane < warps ? shared[lane] : F(0);
  return warp_sum(x);
}

template <typename T>
struct Type {
  using type = T;
};

// Calls f(Type<T>{}) with the element type of a tensor.
template <typename F>
void with_float_type(DType type, F&& f) {
  switch (type) {
    case DType::f32:
      f(Type<float>{});
      return;
    case DType::bf16:
      f(Type<bf16>{});
      return;
    case DType::f16:
      f(Type<f16>{});
      return;
    default:
      STRETTO_CHECK(false, "no kernel for {}", dtype_name(type));
  }
}

template <typename T>
constexpr int kVector = 16 / static_cast<int>(sizeof(T));

// Calls f with the elements per access as a constant: 16 bytes' worth, or one.
template <typename T, typename F>
void with_vector(bool vectorise, F&& f) {
  if (vectorise) {
    f(std::integral_constant<int, kVector<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

inline bool aligned_to_16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Whether rows of `columns` elements at these addresses can be moved 16 bytes at a time.
template <typename T, typename... P>
bool can_vectorise(int64_t columns, const P*... pointers) {
  return columns % kVector<T> == 0 && (aligned_to_16(pointers) && ...);
}

inline int blocks_for(int64_t work, int64_t per_block) {
  return static_cast<int>((work + per_block - 1) / per_block);
}

template <typename T>
T* data_of(const Tensor& t) {
  return static_cast<T*>(t.data());
}
template <typename T>
const T* data_of(const ConstTensor& t) {
  return static_cast<const T*>(t.data());
}

}  // namespace stretto::cuda
