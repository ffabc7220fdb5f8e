// GELU and its derivative. The tanh form is x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3):
// one exponential, and its relative precision holds in the far left tail. The exact one is x
// Phi(x).
#pragma once

#include <type_traits>

#include "backend/cuda/device.cuh"
#include "base/gelu.h"

namespace stretto::cuda {

constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715f;

// 1 / (1 + 2^x), to about two units in the last place of what x's own rounding leaves.
__device__ __forceinline__ float gate_of_power(float x) {
  return reciprocal(1.0f + power_of_two(x));
}

// The tanh form's derivative at x, where its gate is known.
__device__ __forceinline__ float gated_derivative(float x, float square, float gate) {
  constexpr float kSlope = 2.0f * kGeluScale;
  const float slope = x * fmaf(square, 3.0f * kGeluCube * kSlope, kSlope);
  return fmaf(slope, fmaf(-gate, gate, gate), gate);
}
// The gate is 1 / (1 + 2^this).
__device__ __forceinline__ float gate_exponent(float x, float square) {
  constexpr float kSlope = 2.0f * kGeluScale;
  return x * fmaf(square, -kSlope * kGeluCube * kLog2e, -kSlope * kLog2e);
}

// Value and derivative at a point. Beyond +-20 the gate is 0 or 1 to the last bit; cubes would
// overflow.
template <Gelu kForm>
struct GeluAt {
  float value, derivative;

  __device__ __forceinline__ explicit GeluAt(float x) {
    const float low = at_least(x, -20.0f), near = at_most(low, 20.0f);
    const float square = near * near;
    float gate;
    if constexpr (kForm == Gelu::exact) {
      gate = normcdff(near);  // erfc of a rounded argument would be off in the far left tail
      const float lost = fmaf(near, near, -square);  // by the rounding of the square
      const float density = 0.39894228040143268f * expf(-0.5f * square);
      derivative = fmaf(near * density, fmaf(-0.5f, lost, 1.0f), gate);
    } else {
      gate = gate_of_power(gate_exponent(near, square));
      derivative = gated_derivative(near, square, gate);
    }
    value = low * gate;
  }
};

template <Gelu kForm>
__device__ __forceinline__ float gelu(float x) {
  return GeluAt<kForm>(x).value;
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
