// Robust least squares on logarithms: Levenberg-Marquardt with a Huber loss and weak priors.
// Deterministic: no random starts, fixed iteration counts.
#pragma once

#include <functional>
#include <vector>

#include "plan/stack.h"

namespace stretto::plan {

struct FitProblem {
  std::vector<Constant> free;  // constants to find; the rest stay
  Constants start;
  std::array<Prior, kConstants> priors = default_priors();
  size_t rows = 0;
  // log(predicted) - log(measured) of every row.
  std::function<void(const Constants&, std::vector<double>&)> residuals;
  double huber = 0.03;  // residuals beyond this count linearly, not quadratically
  double noise = 0.02;  // weight of the rows against the priors
  int iterations = 40;
};

struct FitResult {
  Constants constants;
  std::vector<double> residuals;
  double spread = 0;                   // robust sigma of the residuals
  std::vector<double> relative_sigma;  // one per free constant: how well it is identified
};

FitResult fit(const FitProblem& problem);

}  // namespace stretto::plan
