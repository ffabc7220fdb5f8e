// What the epilogues do to each element: functions over fragments of registers, as CUTLASS calls
// them.
#pragma once

#include <cutlass/array.h>
#include <cutlass/numeric_conversion.h>

#include "backend/cuda/gelu.cuh"

namespace stretto::cuda::fused {

template <Gelu kForm>
struct Forms {
  template <class Fragment>
  struct Value {
    __device__ __forceinline__ Fragment operator()(const Fragment& x) const {
      Fragment y;
#pragma unroll
      for (int i = 0; i < Fragment::kElements; ++i) y[i] = GeluAt<kForm>(x[i]).value;
      return y;
    }
  };
  // Of what came before GELU, from that of what came after; rounded as it will be stored, so that
  // sums over it are those of a kernel that reads it.
  template <class Fragment>
  struct Gradient {
    __device__ __forceinline__ Fragment operator()(const Fragment& dy, const Fragment& x) const {
      using Rounded = cutlass::Array<cutlass::bfloat16_t, Fragment::kElements>;
      Fragment dx;
#pragma unroll
      for (int i = 0; i < Fragment::kElements; ++i) dx[i] = dy[i] * GeluAt<kForm>(x[i]).derivative;
      const cutlass::NumericArrayConverter<cutlass::bfloat16_t, float, Fragment::kElements> round;
      const cutlass::NumericArrayConverter<float, cutlass::bfloat16_t, Fragment::kElements> widen;
      return widen(Rounded(round(dx)));
    }
  };
};

}  // namespace stretto::cuda::fused
