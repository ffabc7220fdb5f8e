// AdamW, transcribed line by line from Algorithm 2 of Loshchilov and Hutter, "Decoupled Weight
// Decay Regularization" (2019), with the schedule multiplier folded into lr, as PyTorch does.
#pragma once

#include <cmath>

namespace stretto::reference {

struct AdamW {
  double lr, beta1, beta2, eps, weight_decay;

  void step(double& theta, double& m, double& v, double gradient, long t) const {
    const double before = theta;
    m = beta1 * m + (1 - beta1) * gradient;
    v = beta2 * v + (1 - beta2) * gradient * gradient;
    const double m_hat = m / (1 - std::pow(beta1, static_cast<double>(t)));
    const double v_hat = v / (1 - std::pow(beta2, static_cast<double>(t)));
    theta = before - lr * m_hat / (std::sqrt(v_hat) + eps) - lr * weight_decay * before;
  }
};

}  // namespace stretto::reference
