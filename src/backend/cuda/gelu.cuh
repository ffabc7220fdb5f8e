// GELU in its tanh form, x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3), and its derivative.
// The sigmoid form needs one exponential and keeps its relative precision in the far left tail.
#pragma once

namespace stretto::cuda {

constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715f;

__device__ __forceinline__ float gelu(float x) {
  const float e = __expf(-2.0f * kGeluScale * x * (1.0f + kGeluCube * x * x));
  return isinf(e) ? 0.0f : __fdividef(x, 1.0f + e);
}

__device__ __forceinline__ float gelu_derivative(float x) {
  // Beyond +-20 the derivative is 0 or 1 to the last bit; the cubes would overflow.
  x = x < -20.0f ? -20.0f : (x > 20.0f ? 20.0f : x);
  const float e = __expf(-2.0f * kGeluScale * x * (1.0f + kGeluCube * x * x));
  const float s = __fdividef(1.0f, 1.0f + e);
  const float inner = kGeluScale * (1.0f + 3.0f * kGeluCube * x * x);
  return s + 2.0f * x * s * (1.0f - s) * inner;
}

}  // namespace stretto::cuda
