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
  float gate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(gate) : "f"(1.0f + power_of_two(x)));
  return gate;
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
      constexpr float kSlope = 2.0f * kGeluScale;
      gate = gate_of_power(near * fmaf(square, -kSlope * kGeluCube * kLog2e, -kSlope * kLog2e));
      const float slope = fmaf(square, 3.0f * kGeluCube * kSlope, kSlope);
      derivative = gate * fmaf(near * (1.0f - gate), slope, 1.0f);
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
