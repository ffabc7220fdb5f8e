// GELU and its derivative. The tanh form is x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3):
// one exponential, and its relative precision holds in the far left tail. The exact one is x
// Phi(x).
#pragma once

#include <type_traits>

#include "base/gelu.h"

namespace stretto::cuda {

constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715f;

// Value and derivative at a point. Beyond +-20 the gate is 0 or 1 to the last bit; cubes would
// overflow.
template <Gelu kForm>
struct GeluAt {
  float value, derivative;

  __device__ __forceinline__ explicit GeluAt(float x) {
    const float near = x < -20.0f ? -20.0f : (x > 20.0f ? 20.0f : x);
    const float square = near * near;
    float gate, bend;
    if constexpr (kForm == Gelu::exact) {
      gate = normcdff(near);  // erfc of a rounded argument would be off in the far left tail
      bend = 0.39894228040143268f * near * __expf(-0.5f * square);
    } else {
      const float e = __expf(-2.0f * kGeluScale * near * (1.0f + kGeluCube * square));
      gate = __fdividef(1.0f, 1.0f + e);
      bend = 2.0f * near * gate * (1.0f - gate) * kGeluScale * (1.0f + 3.0f * kGeluCube * square);
    }
    value = x < -20.0f ? 0.0f : x * gate;
    derivative = gate + bend;
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
