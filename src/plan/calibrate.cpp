#include "plan/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "plan/memory.h"
#include "plan/statistics.h"

namespace stretto::plan {
namespace {

bool has_seconds(const Observation& o) { return o.seconds > 0 && !o.repeat; }
bool has_memory(const Observation& o) { return o.memory > 0 && !o.repeat && !o.out_of_memory; }

using Predict = double (*)(const Cluster&, const Stack&, const Constants&, const Observation&);

struct FitSettings {
  const std::vector<Constant>& free;
  double huber, noise;
};

// Constants to be fitted start at the centre of their prior, whatever was stored; others stay.
FitResult fit_rows(const Cluster& cluster, const Stack& stack, const std::vector<Observation>& rows,
                   double Observation::*measured, Predict predict, const FitSettings& settings) {
  FitProblem p;
  p.start = stack.constants;
  for (Constant id : settings.free) p.start.set(id, stack.priors[static_cast<size_t>(id)].centre);
  p.priors = stack.priors;
  p.free = settings.free;
  p.huber = settings.huber;
  p.noise = settings.noise;
  p.rows = rows.size();
  p.residuals = [&](const Constants& c, std::vector<double>& r) {
    r.clear();
    for (const Observation& o : rows) {
      r.push_back(std::log(predict(cluster, stack, c, o) / (o.*measured)));
    }
  };
  return fit(p);
}

template <typename Wanted>
std::vector<Observation> only(const std::vector<Observation>& rows, const Wanted& wanted) {
  std::vector<Observation> out;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(out), wanted);
  return out;
}

// The derivative of each row's log(seconds) by the logarithm of each constant.
std::vector<std::vector<double>> sensitivities(const Cluster& cluster, const Stack& stack,
                                               const Constants& at,
                                               const std::vector<Constant>& free,
                                               const std::vector<Observation>& rows) {
  std::vector<std::vector<double>> out(rows.size(), std::vector<double>(free.size()));
  const double step = 1e-3;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double base = std::log(predicted_seconds(cluster, stack, at, rows[i]));
    for (size_t j = 0; j < free.size(); ++j) {
      Constants c = at;
      c.set(free[j], at[free[j]] * std::exp(step));
      out[i][j] = (std::log(predicted_seconds(cluster, stack, c, rows[i])) - base) / step;
    }
  }
  return out;
}

// Covariance of the logarithms of the constants, updated run by run (rank-one updates, no
// inversion).
class Covariance {
 public:
  Covariance(const Stack& stack, const std::vector<Constant>& free)
      : n_(free.size()), c_(n_ * n_, 0.0) {
    for (size_t i = 0; i < n_; ++i) {
      const double sigma = stack.priors[static_cast<size_t>(free[i])].sigma;
      c_[i * n_ + i] = sigma * sigma;
    }
  }
  double variance(const std::vector<double>& g) const {
    double sum = 0;
    for (size_t i = 0; i < n_; ++i) {
      for (size_t j = 0; j < n_; ++j) sum += g[i] * c_[i * n_ + j] * g[j];
    }
    return sum;
  }
  void observe(const std::vector<double>& g, double noise) {
    std::vector<double> cg(n_, 0.0);
    for (size_t i = 0; i < n_; ++i) {
      for (size_t j = 0; j < n_; ++j) cg[i] += c_[i * n_ + j] * g[j];
    }
    double denominator = noise * noise;
    for (size_t i = 0; i < n_; ++i) denominator += g[i] * cg[i];
    for (size_t i = 0; i < n_; ++i) {
      for (size_t j = 0; j < n_; ++j) c_[i * n_ + j] -= cg[i] * cg[j] / denominator;
    }
  }
  double sigma(size_t i) const { return std::sqrt(std::max(0.0, c_[i * n_ + i])); }

 private:
  size_t n_;
  std::vector<double> c_;
};

double mean_deviation(const Covariance& c, const std::vector<std::vector<double>>& rows) {
  double sum = 0;
  for (const auto& g : rows) sum += std::sqrt(std::max(0.0, c.variance(g)));
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

// Greedy: the next run is always the one that reduces the mean uncertainty over all candidates
// most.
std::vector<ProposedRun> propose(const Cluster& cluster, const Stack& stack, const Constants& at,
                                 Covariance known, const std::vector<Observation>& candidates,
                                 size_t count) {
  const auto g = sensitivities(cluster, stack, at, stack.free, candidates);
  std::vector<ProposedRun> out;
  std::vector<bool> used(candidates.size(), false);
  for (size_t round = 0; round < std::min(count, candidates.size()); ++round) {
    const double before = mean_deviation(known, g);
    size_t best = candidates.size();
    double best_after = before;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (used[i]) continue;
      Covariance trial = known;
      trial.observe(g[i], stack.noise);
      const double after = mean_deviation(trial, g);
      if (after < best_after) {
        best_after = after;
        best = i;
      }
    }
    if (best == candidates.size()) break;
    size_t most = 0;
    Covariance next = known;
    next.observe(g[best], stack.noise);
    for (size_t j = 1; j < stack.free.size(); ++j) {
      if (known.sigma(j) - next.sigma(j) > known.sigma(most) - next.sigma(most)) most = j;
    }
    used[best] = true;
    const Observation& o = candidates[best];
    out.push_back({o.work, o.layout, predicted_seconds(cluster, stack, at, o),
                   100 * (before - best_after), info(stack.free[most]).key});
    known = next;
  }
  return out;
}

double expected_memory(const Cluster& cluster, const Stack& stack, const Constants& constants,
                       const Observation& o) {
  if (o.expected_memory > 0) return o.expected_memory;
  if (!stack.own_runtime) return predicted_memory(cluster, stack, constants, o);
  const Setting s = setting_of(cluster, stack, constants, o);
  return own_memory(s.cluster, s.stack, o.work, o.layout).largest.total();
}

void judge_memory(const Cluster& cluster, const Stack& stack, const std::vector<Observation>& rows,
                  Calibration& out) {
  std::vector<double> errors;
  for (const Observation& o : rows) {
    if (!has_memory(o)) continue;
    const double expected = expected_memory(cluster, stack, out.constants, o);
    errors.push_back(std::abs(expected / o.memory - 1));
    if (errors.back() < out.worst_memory_error) continue;
    out.worst_memory_error = errors.back();
    out.worst_memory = o.id;
  }
  out.memory_error = median(errors);
}

// Signs that a fit does not describe its runs. The cause is usually a wrong column, or another
// software or device.
std::vector<std::string> doubts_of(const Calibration& c) {
  constexpr double kMostSpread = 0.25, kAtBound = 1e-3;
  std::vector<std::string> out;
  if (c.spread > kMostSpread) {
    out.push_back(
        fmt::format("the runs spread by {:.0f} % around what was fitted, more than {:.0f} %",
                    100 * c.spread, 100 * kMostSpread));
  }
  for (const FoundConstant& f : c.found) {
    const ConstantInfo& i = info(f.id);
    const bool low = f.value <= i.low * (1 + kAtBound), high = f.value >= i.high * (1 - kAtBound);
    if ((!low && !high) || std::abs(f.value / f.prior - 1) < kAtBound) continue;
    out.push_back(fmt::format("{} ended at {:.4g} {}, the {} that is possible", i.key, f.value,
                              i.unit, low ? "least" : "most"));
  }
  return out;
}

}  // namespace

const std::vector<Constant>& memory_constants() {
  static const std::vector<Constant> kList = {Constant::param_bytes, Constant::state_bytes,
                                              Constant::activation,  Constant::memory_fixed,
                                              Constant::workspace,   Constant::slack};
  return kList;
}

FitResult fit_seconds(const Cluster& cluster, const Stack& stack,
                      const std::vector<Observation>& rows) {
  return fit_rows(cluster, stack, only(rows, has_seconds), &Observation::seconds, predicted_seconds,
                  {stack.free, stack.huber, stack.noise});
}

FitResult fit_memory(const Cluster& cluster, const Stack& stack,
                     const std::vector<Observation>& rows) {
  return fit_rows(cluster, stack, only(rows, has_memory), &Observation::memory, predicted_memory,
                  {memory_constants(), 0.012, 0.03});
}

Calibration calibrate(const Cluster& cluster, const Stack& stack,
                      const std::vector<Observation>& rows,
                      const std::vector<Observation>& candidates, size_t proposals) {
  Calibration out;
  const std::vector<Observation> timed = only(rows, has_seconds);
  if (timed.empty()) {
    throw Error(ExitCode::no_input, "calibrating: no run with a measured time",
                "run `stretto bench` first, or name the directory that holds its records");
  }
  out.rows = timed.size();
  out.memory_rows = static_cast<size_t>(std::count_if(rows.begin(), rows.end(), has_memory));
  std::vector<double> ratios;
  for (const Observation& o : timed) {
    ratios.push_back(o.seconds / predicted_seconds(cluster, stack, stack.constants, o));
    out.most_devices = std::max(out.most_devices, o.layout.devices());
  }
  out.common_factor = median(ratios);
  const FitResult seconds = fit_seconds(cluster, stack, timed);
  out.constants = seconds.constants;
  out.spread = seconds.spread;
  // Our own runtime's memory is counted, not fitted.
  if (out.memory_rows > 0 && !stack.own_runtime) {
    const FitResult memory = fit_memory(cluster, stack, rows);
    for (Constant id : memory_constants()) out.constants.set(id, memory.constants[id]);
  }
  judge_memory(cluster, stack, rows, out);
  Covariance known(stack, stack.free);
  for (const auto& g : sensitivities(cluster, stack, out.constants, stack.free, timed)) {
    known.observe(g, std::max(stack.noise, out.spread));
  }
  for (size_t i = 0; i < stack.free.size(); ++i) {
    const Prior& prior = stack.priors[static_cast<size_t>(stack.free[i])];
    const double sigma = known.sigma(i);
    out.found.push_back({stack.free[i], out.constants[stack.free[i]], sigma, prior.centre,
                         1 - std::min(1.0, sigma / prior.sigma)});
  }
  out.doubts = doubts_of(out);
  const double limit = 3 * std::max(out.spread, 0.01);
  for (size_t i = 0; i < timed.size(); ++i) {
    if (std::abs(seconds.residuals[i]) > limit) {
      out.suspects.push_back({timed[i].id, std::expm1(seconds.residuals[i])});
    }
  }
  if (!candidates.empty()) {
    out.proposals = propose(cluster, stack, out.constants, known, candidates, proposals);
  }
  return out;
}

}  // namespace stretto::plan
