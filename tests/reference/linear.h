// The linear layer and its gradients as plain loops in double.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reference/gelu.h"

namespace stretto::reference {

using Values = std::vector<double>;

// out (m, n) = inp (m, k) weight (n, k)^T + bias (n, or empty).
inline Values linear_forward(const Values& inp, const Values& weight, const Values& bias, int64_t m,
                             int64_t n, int64_t k) {
  Values out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(j)];
      for (int64_t p = 0; p < k; ++p) {
        sum += inp[static_cast<size_t>(i * k + p)] * weight[static_cast<size_t>(j * k + p)];
      }
      out[static_cast<size_t>(i * n + j)] = sum;
    }
  }
  return out;
}

// dinp (m, k) = dout (m, n) weight (n, k).
inline Values linear_backward_input(const Values& dout, const Values& weight, int64_t m, int64_t n,
                                    int64_t k) {
  Values dinp(static_cast<size_t>(m * k));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) {
        dinp[static_cast<size_t>(i * k + p)] +=
            dout[static_cast<size_t>(i * n + j)] * weight[static_cast<size_t>(j * k + p)];
      }
    }
  }
  return dinp;
}

// dweight (n, k) = dout (m, n)^T inp (m, k).
inline Values linear_backward_weight(const Values& inp, const Values& dout, int64_t m, int64_t n,
                                     int64_t k) {
  Values dweight(static_cast<size_t>(n * k));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) {
        dweight[static_cast<size_t>(j * k + p)] +=
            dout[static_cast<size_t>(i * n + j)] * inp[static_cast<size_t>(i * k + p)];
      }
    }
  }
  return dweight;
}

inline Values column_sums(const Values& t, int64_t rows, int64_t columns) {
  Values sums(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      sums[static_cast<size_t>(j)] += t[static_cast<size_t>(i * columns + j)];
    }
  }
  return sums;
}

// The gradient (3 width) of qkv's bias: `before` for queries and keys, weight^T dproj_bias.
inline Values qkv_bias_backward(Values before, const Values& weight, const Values& dproj_bias,
                                int64_t n, int64_t width) {
  const Values values = linear_backward_input(dproj_bias, weight, 1, n, width);
  std::copy(values.begin(), values.end(), before.begin() + 2 * width);
  return before;
}

}  // namespace stretto::reference
