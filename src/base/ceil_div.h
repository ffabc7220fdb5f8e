// Division and rounding of whole numbers upwards. Numbers must not be negative, and divisors not
// zero.
#pragma once

#include <concepts>
#include <type_traits>

namespace stretto {

template <std::integral T>
constexpr T ceil_div(T n, std::type_identity_t<T> by) {
  return (n + by - 1) / by;
}

// The smallest multiple of `step` that is at least n.
template <std::integral T>
constexpr T round_up(T n, std::type_identity_t<T> step) {
  return ceil_div(n, step) * step;
}

}  // namespace stretto
