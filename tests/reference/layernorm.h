// LayerNorm by slow, obvious loops in double.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace stretto::reference {

using Values = std::vector<double>;

struct LayerNorm {
  Values out, mean, rstd;
};

// x: (rows, n). An empty bias is none.
inline LayerNorm layernorm_forward(const Values& x, const Values& weight, const Values& bias) {
  const size_t n = weight.size(), rows = x.size() / n;
  LayerNorm result{Values(x.size()), Values(rows), Values(rows)};
  for (size_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (size_t c = 0; c < n; ++c) mean += x[r * n + c] / static_cast<double>(n);
    for (size_t c = 0; c < n; ++c) {
      variance += (x[r * n + c] - mean) * (x[r * n + c] - mean) / static_cast<double>(n);
    }
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    for (size_t c = 0; c < n; ++c) {
      result.out[r * n + c] =
          (x[r * n + c] - mean) * rstd * weight[c] + (bias.empty() ? 0 : bias[c]);
    }
    result.mean[r] = mean;
    result.rstd[r] = rstd;
  }
  return result;
}

struct LayerNormGrad {
  Values dinp, dweight, dbias;
};

inline LayerNormGrad layernorm_backward(const Values& dout, const Values& x, const Values& weight) {
  const size_t n = weight.size(), rows = x.size() / n;
  const LayerNorm forward = layernorm_forward(x, weight, {});
  LayerNormGrad grad{Values(x.size()), Values(n), Values(n)};
  for (size_t r = 0; r < rows; ++r) {
    double mean_g = 0, mean_gn = 0;
    for (size_t c = 0; c < n; ++c) {
      const double normal = (x[r * n + c] - forward.mean[r]) * forward.rstd[r];
      const double g = dout[r * n + c] * weight[c];
      mean_g += g / static_cast<double>(n);
      mean_gn += g * normal / static_cast<double>(n);
      grad.dweight[c] += dout[r * n + c] * normal;
      grad.dbias[c] += dout[r * n + c];
    }
    for (size_t c = 0; c < n; ++c) {
      const double normal = (x[r * n + c] - forward.mean[r]) * forward.rstd[r];
      const double g = dout[r * n + c] * weight[c];
      grad.dinp[r * n + c] = forward.rstd[r] * (g - mean_g - normal * mean_gn);
    }
  }
  return grad;
}

}  // namespace stretto::reference
