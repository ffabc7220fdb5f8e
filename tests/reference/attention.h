// Causal attention and its gradient as plain loops in double, with the whole matrix of scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace stretto::reference {

using Values = std::vector<double>;

struct Attention {
  int64_t b, t, h, d;
  std::vector<double> slopes;  // one per head; empty without ALiBi

  size_t qkv(int64_t batch, int64_t row, int64_t part, int64_t head, int64_t i) const {
    return static_cast<size_t>((((batch * t + row) * 3 + part) * h + head) * d + i);
  }
  size_t out(int64_t batch, int64_t row, int64_t head, int64_t i) const {
    return static_cast<size_t>(((batch * t + row) * h + head) * d + i);
  }

  // Probabilities of one row, and its log-sum-exp.
  Values row(const Values& x, int64_t batch, int64_t head, int64_t q, double* lse) const {
    Values p(static_cast<size_t>(q + 1));
    for (int64_t j = 0; j <= q; ++j) {
      double s = 0;
      for (int64_t i = 0; i < d; ++i) {
        s += x[qkv(batch, q, 0, head, i)] * x[qkv(batch, j, 1, head, i)];
      }
      s /= std::sqrt(static_cast<double>(d));
      if (!slopes.empty()) s -= slopes[static_cast<size_t>(head)] * static_cast<double>(q - j);
      p[static_cast<size_t>(j)] = s;
    }
    const double max = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double s : p) sum += std::exp(s - max);
    *lse = max + std::log(sum);
    for (double& s : p) s = std::exp(s - *lse);
    return p;
  }

  template <typename Body>  // body(batch, head, row)
  void for_rows(Body&& body) const {
    for (int64_t batch = 0; batch < b; ++batch) {
      for (int64_t head = 0; head < h; ++head) {
        for (int64_t q = 0; q < t; ++q) body(batch, head, q);
      }
    }
  }

  Values forward(const Values& x, Values* lse = nullptr) const {
    Values o(static_cast<size_t>(b * t * h * d));
    if (lse != nullptr) lse->assign(static_cast<size_t>(b * h * t), 0);
    for_rows([&](int64_t batch, int64_t head, int64_t q) {
      double row_lse = 0;
      const Values p = row(x, batch, head, q, &row_lse);
      if (lse != nullptr) (*lse)[static_cast<size_t>((batch * h + head) * t + q)] = row_lse;
      for (int64_t j = 0; j <= q; ++j) {
        for (int64_t i = 0; i < d; ++i) {
          o[out(batch, q, head, i)] += p[static_cast<size_t>(j)] * x[qkv(batch, j, 2, head, i)];
        }
      }
    });
    return o;
  }

  Values backward(const Values& dout, const Values& x) const {
    Values dx(x.size());
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    for_rows([&](int64_t batch, int64_t head, int64_t q) {
      double row_lse = 0;
      const Values p = row(x, batch, head, q, &row_lse);
      Values dp(p.size());
      double mean = 0;
      for (int64_t j = 0; j <= q; ++j) {
        for (int64_t i = 0; i < d; ++i) {
          const double g = dout[out(batch, q, head, i)];
          dp[static_cast<size_t>(j)] += g * x[qkv(batch, j, 2, head, i)];
          dx[qkv(batch, j, 2, head, i)] += p[static_cast<size_t>(j)] * g;
        }
        mean += p[static_cast<size_t>(j)] * dp[static_cast<size_t>(j)];
      }
      for (int64_t j = 0; j <= q; ++j) {
        const double ds = p[static_cast<size_t>(j)] * (dp[static_cast<size_t>(j)] - mean) * scale;
        for (int64_t i = 0; i < d; ++i) {
          dx[qkv(batch, q, 0, head, i)] += ds * x[qkv(batch, j, 1, head, i)];
          dx[qkv(batch, j, 1, head, i)] += ds * x[qkv(batch, q, 0, head, i)];
        }
      }
    });
    return dx;
  }
};

}  // namespace stretto::reference
