// Small numerics that several modules need.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace stretto {

// q in [0, 1], linear between order statistics. `values` need not be sorted and must not be empty.
double quantile(std::span<const double> values, double q);
inline double median(std::span<const double> values) { return quantile(values, 0.5); }

// Solves a x = b for a symmetric positive definite matrix, stored row by row; none if the matrix is
// not.
std::optional<std::vector<double>> cholesky_solve(std::vector<double> a, std::vector<double> b);

}  // namespace stretto
