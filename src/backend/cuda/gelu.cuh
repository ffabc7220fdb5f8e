// GELU in its tanh form, x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3), and its derivative.
// The sigmoid form needs one exponential and keeps its relative precision in the far left tail.
#pragma once

namespace stretto::cuda {

constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715f;

// Both from one exponential. Beyond +-20 the sigmoid is 0 or 1 to the last bit; cubes would
// overflow.
struct Gelu {
  float value, derivative;

  __device__ __forceinline__ explicit Gelu(float x) {
    const float near = x < -20.0f ? -20.0f : (x > 20.0f ? 20.0f : x);
    const float square = near * near;
    const float e = __expf(-2.0f * kGeluScale * near * (1.0f + kGeluCube * square));
    const float s = __fdividef(1.0f, 1.0f + e);
    const float inner = kGeluScale * (1.0f + 3.0f * kGeluCube * square);
    value = x < -20.0f ? 0.0f : x * s;
    derivative = s + 2.0f * near * s * (1.0f - s) * inner;
  }
};

__device__ __forceinline__ float gelu(float x) { return Gelu(x).value; }

}  // namespace stretto::cuda
