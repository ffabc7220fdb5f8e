// Both forms of GELU, in double. The gates keep their relative precision in the far left tail.
#pragma once

#include <cmath>
#include <numbers>

#include "base/gelu.h"

namespace stretto::reference {

// gelu(x) = x gate(x).
inline double gelu_gate(double x, Gelu form) {
  if (form == Gelu::exact) return 0.5 * std::erfc(-x / std::numbers::sqrt2);
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 1 / (1 + std::exp(-2 * u));  // (1 + tanh u) / 2
}

inline double gelu(double x, Gelu form) { return x * gelu_gate(x, form); }

inline double gelu_grad(double x, Gelu form) {
  const double gate = gelu_gate(x, form);
  if (form == Gelu::exact) {
    return gate + x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  }
  const double du = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  return gate + 2 * x * gate * (1 - gate) * du;
}

}  // namespace stretto::reference
