// GELU and its derivative. The tanh form is x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3):
// one exponential, and its relative precision holds in the far left tail. The exact one is x
// Phi(x).
#pragma once

#include "base/gelu.h"

namespace stretto::cuda {

constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715f;

__device__ __forceinline__ float gelu_tanh(float x) {
  const float e = __expf(-2.0f * kGeluScale * x * (1.0f + kGeluCube * x * x));
  return isinf(e) ? 0.0f : __fdividef(x, 1.0f + e);
}

__device__ __forceinline__ float gelu_tanh_derivative(float x) {
  // Beyond +-20 the derivative is 0 or 1 to the last bit; the cubes would overflow.
  x = x < -20.0f ? -20.0f : (x > 20.0f ? 20.0f : x);
  const float e = __expf(-2.0f * kGeluScale * x * (1.0f + kGeluCube * x * x));
  const float s = __fdividef(1.0f, 1.0f + e);
  const float inner = kGeluScale * (1.0f + 3.0f * kGeluCube * x * x);
  return s + 2.0f * x * s * (1.0f - s) * inner;
}

__device__ __forceinline__ float normal_share(float x) {
  return 0.5f * erfcf(-0.70710678118654752f * x);
}

template <Gelu kForm>
__device__ __forceinline__ float gelu(float x) {
  if constexpr (kForm == Gelu::tanh) return gelu_tanh(x);
  return x < -20.0f ? 0.0f : x * normal_share(x);  // -infinity times 0 would be NaN
}

template <Gelu kForm>
__device__ __forceinline__ float gelu_derivative(float x) {
  if constexpr (kForm == Gelu::tanh) return gelu_tanh_derivative(x);
  x = x < -20.0f ? -20.0f : (x > 20.0f ? 20.0f : x);  // 0 or 1 to the last bit beyond
  return normal_share(x) + 0.39894228040143268f * x * __expf(-0.5f * x * x);
}

// Calls work(integral_constant<Gelu, form>).
template <typename F>
void with_gelu(Gelu form, const F& work) {
  if (form == Gelu::none) {
    work(std::integral_constant<Gelu, Gelu::none>());
  } else if (form == Gelu::exact) {
    work(std::integral_constant<Gelu, Gelu::exact>());
  } else {
    work(std::integral_constant<Gelu, Gelu::tanh>());
  }
}

}  // namespace stretto::cuda
