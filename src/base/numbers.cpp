#include "base/numbers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stretto {

double quantile(std::span<const double> values, double q) {
  STRETTO_CHECK(!values.empty() && q >= 0 && q <= 1);
  std::vector<double> ranked(values.begin(), values.end());
  const double at = q * static_cast<double>(ranked.size() - 1);
  const auto below = static_cast<size_t>(at);
  const auto low = ranked.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(ranked.begin(), low, ranked.end());
  const auto next = std::min_element(low + 1, ranked.end());
  const double part = at - static_cast<double>(below);
  return *low * (1 - part) + (next == ranked.end() ? *low : *next) * part;
}

std::optional<std::vector<double>> cholesky_solve(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  STRETTO_CHECK(a.size() == n * n, "{} values of a matrix for {} unknowns", a.size(), n);
  for (size_t j = 0; j < n; ++j) {
    double d = a[j * n + j];
    for (size_t k = 0; k < j; ++k) d -= a[j * n + k] * a[j * n + k];
    if (!(d > 0)) return std::nullopt;
    a[j * n + j] = std::sqrt(d);
    for (size_t i = j + 1; i < n; ++i) {
      double s = a[i * n + j];
      for (size_t k = 0; k < j; ++k) s -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = s / a[j * n + j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

}  // namespace stretto
