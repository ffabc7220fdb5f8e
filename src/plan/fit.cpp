#include "plan/fit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numbers.h"

namespace stretto::plan {
namespace {

using Vector = std::vector<double>;

class Solver {
 public:
  explicit Solver(const FitProblem& p) : p_(p), n_(p.free.size()) {
    x_.resize(n_);
    for (size_t i = 0; i < n_; ++i) x_[i] = std::log(p.start[p.free[i]]);
  }

  FitResult run();

 private:
  const Prior& prior(size_t i) const { return p_.priors[static_cast<size_t>(p_.free[i])]; }
  Constants at(const Vector& x) const {
    Constants c = p_.start;
    for (size_t i = 0; i < n_; ++i) c.set(p_.free[i], std::exp(x[i]));
    return c;
  }
  void clamp(Vector& x) const {
    for (size_t i = 0; i < n_; ++i) {
      const ConstantInfo& k = info(p_.free[i]);
      x[i] = std::clamp(x[i], std::log(k.low), std::log(k.high));
    }
  }
  double loss(const Vector& x, const Vector& r) const {
    double sum = 0;
    for (double e : r) {
      const double a = std::abs(e);
      sum += (a <= p_.huber ? a * a : p_.huber * (2 * a - p_.huber)) / (p_.noise * p_.noise);
    }
    for (size_t i = 0; i < n_; ++i) {
      const Prior& k = prior(i);
      const double z = (x[i] - std::log(k.centre)) / k.sigma;
      sum += z * z;
    }
    return sum;
  }
  void normal_equations(const Vector& r, Vector& a, Vector& g);

  const FitProblem& p_;
  size_t n_;
  Vector x_;
};

void Solver::normal_equations(const Vector& r, Vector& a, Vector& g) {
  const size_t rows = r.size();
  std::vector<Vector> columns(n_);
  for (size_t j = 0; j < n_; ++j) {
    const double step = 1e-4;
    Vector x = x_;
    x[j] += step;
    Vector shifted;
    p_.residuals(at(x), shifted);
    columns[j].resize(rows);
    for (size_t i = 0; i < rows; ++i) columns[j][i] = (shifted[i] - r[i]) / step;
  }
  a.assign(n_ * n_, 0);
  g.assign(n_, 0);
  const double scale = 1 / (p_.noise * p_.noise);
  for (size_t i = 0; i < rows; ++i) {
    const double weight = scale * std::min(1.0, p_.huber / std::max(1e-12, std::abs(r[i])));
    for (size_t j = 0; j < n_; ++j) {
      g[j] -= weight * columns[j][i] * r[i];
      for (size_t k = 0; k <= j; ++k) a[j * n_ + k] += weight * columns[j][i] * columns[k][i];
    }
  }
  for (size_t j = 0; j < n_; ++j) {
    const Prior& k = prior(j);
    a[j * n_ + j] += 1 / (k.sigma * k.sigma);
    g[j] -= (x_[j] - std::log(k.centre)) / (k.sigma * k.sigma);
    for (size_t i = 0; i < j; ++i) a[i * n_ + j] = a[j * n_ + i];
  }
}

FitResult Solver::run() {
  Vector r;
  p_.residuals(at(x_), r);
  STRETTO_CHECK(r.size() == p_.rows, "{} residuals for {} rows", r.size(), p_.rows);
  double current = loss(x_, r);
  double damping = 1e-2;
  Vector a, g;
  for (int it = 0; it < p_.iterations; ++it) {
    normal_equations(r, a, g);
    bool moved = false;
    for (int attempt = 0; attempt < 8 && !moved; ++attempt) {
      Vector damped = a;
      for (size_t j = 0; j < n_; ++j) damped[j * n_ + j] *= 1 + damping;
      if (const auto step = cholesky_solve(damped, g)) {
        Vector x = x_;
        for (size_t j = 0; j < n_; ++j) x[j] += std::clamp((*step)[j], -0.5, 0.5);
        clamp(x);
        Vector trial;
        p_.residuals(at(x), trial);
        const double value = loss(x, trial);
        if (value < current) {
          const double gain = current - value;
          x_ = x;
          r = trial;
          current = value;
          damping = std::max(1e-6, damping * 0.3);
          moved = true;
          if (gain < 1e-6 * current) it = p_.iterations;
          break;
        }
      }
      damping *= 4;
    }
    if (!moved) break;
  }
  FitResult result;
  result.constants = at(x_);
  result.residuals = r;
  Vector magnitudes;
  for (double e : r) magnitudes.push_back(std::abs(e));
  if (!magnitudes.empty()) {
    std::nth_element(magnitudes.begin(),
                     magnitudes.begin() + static_cast<long>(magnitudes.size() / 2),
                     magnitudes.end());
    result.spread = 1.4826 * magnitudes[magnitudes.size() / 2];
  }
  normal_equations(r, a, g);
  for (size_t j = 0; j < n_; ++j) {  // diagonal of the inverse, one column at a time
    Vector unit(n_, 0.0);
    unit[j] = 1;
    const auto column = cholesky_solve(a, unit);
    result.relative_sigma.push_back(column ? std::sqrt((*column)[j]) : prior(j).sigma);
  }
  return result;
}

}  // namespace

FitResult fit(const FitProblem& problem) { return Solver(problem).run(); }

}  // namespace stretto::plan
