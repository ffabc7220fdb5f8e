// GELU in the tanh form, in double.
#pragma once

#include <cmath>
#include <numbers>

namespace stretto::reference {

inline double gelu(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}

inline double gelu_grad(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  const double du = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  const double t = std::tanh(u);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du;
}

}  // namespace stretto::reference
