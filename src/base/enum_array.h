// An array indexed by the enumerators of E, which are 0 to N - 1.
#pragma once

#include <array>
#include <cstddef>

namespace stretto {

template <typename E, typename T, size_t N>
struct EnumArray {
  std::array<T, N> values{};

  T& operator[](E e) { return values[static_cast<size_t>(e)]; }
  const T& operator[](E e) const { return values[static_cast<size_t>(e)]; }
  bool operator==(const EnumArray&) const = default;
};

}  // namespace stretto
