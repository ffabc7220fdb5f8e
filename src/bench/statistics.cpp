#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace stretto {
namespace {

int64_t steps_of(const std::vector<std::vector<double>>& runs) {
  int64_t steps = 0;
  for (const std::vector<double>& run : runs) steps += std::ssize(run);
  return steps;
}

// Steps that may be warm-up are clipped at a generous limit, later ones at a tight limit.
std::vector<double> clipped(std::span<const double> seconds, int64_t most) {
  std::vector<double> tail(seconds.begin() + std::ssize(seconds) / 2, seconds.end());
  const double centre = median(tail);
  for (double& x : tail) x = std::abs(x - centre);
  const double deviation = std::max(median(tail), 1e-3 * centre);
  std::vector<double> out(seconds.begin(), seconds.end());
  for (size_t i = 0; i < out.size(); ++i) {
    const double width = deviation * (static_cast<int64_t>(i) < most ? 30 : 3);
    out[i] = std::clamp(out[i], centre - width, centre + width);
  }
  return out;
}

// The largest r with P(Binomial(n, 1/2) < r) <= 2.5 %; 0 when there is none.
int64_t tail_rank(int64_t n) {
  // In logarithms, because 1/2 to the power of a thousand is no double any more.
  double log_probability = static_cast<double>(n) * std::log(0.5), sum = 0;
  for (int64_t r = 0; r <= n; ++r) {
    sum += std::exp(log_probability);
    if (sum > 0.025) return r;
    log_probability += std::log(static_cast<double>(n - r) / static_cast<double>(r + 1));
  }
  return 0;
}

int64_t independent_steps(std::span<const double> values) {
  const double r = std::max(0.0, autocorrelation(values));
  const auto n = static_cast<double>(values.size());
  return static_cast<int64_t>(n * (1 - r) / (1 + r));
}

// The 95 % interval given by the medians of consecutive stretches, as a factor up and down: in
// logarithms, so that it cannot reach below zero. It includes disturbances that are longer than a
// step but shorter than a stretch. 1 for fewer than four steps per stretch, and for times of zero.
double stretch_factor(std::span<const double> values) {
  constexpr size_t kStretches = 6;
  constexpr double kStudent = 2.571;  // 97.5 % point, five degrees of freedom
  if (values.size() < 4 * kStretches) return 1;
  double mean = 0, medians[kStretches];
  for (size_t i = 0; i < kStretches; ++i) {
    const size_t from = i * values.size() / kStretches, to = (i + 1) * values.size() / kStretches;
    const double middle = median(values.subspan(from, to - from));
    if (!(middle > 0)) return 1;
    medians[i] = std::log(middle);
    mean += medians[i] / kStretches;
  }
  double squares = 0;
  for (const double m : medians) squares += (m - mean) * (m - mean);
  return std::exp(kStudent * std::sqrt(squares / (kStretches - 1) / kStretches));
}

class Drawing {
 public:
  explicit Drawing(uint64_t stream) : rng_(20260401, stream) {}
  size_t below(size_t n) {
    return std::min(n - 1, static_cast<size_t>(rng_.uniform(next_++) * static_cast<double>(n)));
  }

 private:
  CounterRng rng_;
  uint64_t next_ = 0;
};

// Steps are drawn in blocks of about the cube root of their number, because neighbouring steps are
// not independent.
double resampled_median(const std::vector<std::vector<double>>& runs, Drawing& drawing,
                        std::vector<double>& scratch) {
  scratch.clear();
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<double>& run = runs[drawing.below(runs.size())];
    const auto block = static_cast<size_t>(std::ceil(std::cbrt(static_cast<double>(run.size()))));
    for (size_t taken = 0; taken < run.size(); taken += block) {
      const size_t start = drawing.below(run.size());
      for (size_t k = 0; k < block && taken + k < run.size(); ++k) {
        scratch.push_back(run[(start + k) % run.size()]);
      }
    }
  }
  return median(scratch);
}

}  // namespace

double pooled_median(const std::vector<std::vector<double>>& runs) {
  std::vector<double> all;
  for (const auto& run : runs) all.insert(all.end(), run.begin(), run.end());
  return median(all);
}

int64_t find_warmup(std::span<const double> seconds, int64_t most) {
  const int64_t n = std::ssize(seconds);
  most = std::clamp<int64_t>(most, 0, std::max<int64_t>(0, n - 2));
  if (most == 0) return 0;
  const std::vector<double> x = clipped(seconds, most);
  std::vector<double> errors;
  for (int64_t d = 0; d <= most; ++d) {
    const auto rest = static_cast<double>(n - d);
    const double mean = std::accumulate(x.begin() + d, x.end(), 0.0) / rest;
    double squares = 0;
    for (auto it = x.begin() + d; it != x.end(); ++it) squares += (*it - mean) * (*it - mean);
    errors.push_back(squares / (rest * rest));
  }
  // The minimum itself depends on noise; the first cut that is nearly as good depends on it less.
  const double enough = 1.25 * *std::min_element(errors.begin(), errors.end());
  const auto first =
      std::find_if(errors.begin(), errors.end(), [&](double error) { return error <= enough; });
  return first - errors.begin();
}

double autocorrelation(std::span<const double> values) {
  const size_t n = values.size();
  if (n < 3) return 0;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(n);
  double squares = 0, products = 0;
  for (size_t i = 0; i < n; ++i) {
    squares += (values[i] - mean) * (values[i] - mean);
    if (i > 0) products += (values[i] - mean) * (values[i - 1] - mean);
  }
  return squares > 0 ? std::clamp(products / squares, -1.0, 1.0) : 0;
}

Summary summarise(std::span<const double> values) {
  Summary s;
  s.count = std::ssize(values);
  if (values.empty()) return s;
  s.median = quantile(values, 0.5);
  s.p10 = quantile(values, 0.1);
  s.p90 = quantile(values, 0.9);
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(s.count);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const int64_t m = std::max<int64_t>(1, independent_steps(values));
  // A rank among m independent values, applied to the same share of all values.
  const int64_t rank = tail_rank(m) * s.count / m;
  const auto index = static_cast<size_t>(std::max<int64_t>(0, rank - 1));
  const double factor = stretch_factor(values);
  s.low = std::min(sorted[index], s.median / factor);
  s.high = std::max(sorted[sorted.size() - 1 - index], s.median * factor);
  return s;
}

int64_t bootstrap_draws(int64_t steps) {
  constexpr int64_t kMost = 2000, kFewest = 40, kStepsInAll = 50'000'000;
  return std::clamp(kStepsInAll / std::max<int64_t>(1, steps), kFewest, kMost);
}

Ratio median_ratio(const std::vector<std::vector<double>>& a,
                   const std::vector<std::vector<double>>& b) {
  Drawing draw_a(1), draw_b(2);
  std::vector<double> scratch, ratios;
  const int64_t draws = bootstrap_draws(std::max(steps_of(a), steps_of(b)));
  for (int64_t i = 0; i < draws; ++i) {
    const double base = resampled_median(a, draw_a, scratch);
    ratios.push_back(resampled_median(b, draw_b, scratch) / base);
  }
  return {pooled_median(b) / pooled_median(a), quantile(ratios, 0.025), quantile(ratios, 0.975)};
}

Ratio median_ratio(const std::vector<std::vector<double>>& ratios_of_neighbours) {
  Drawing draw(3);
  std::vector<double> scratch, medians;
  const int64_t draws = bootstrap_draws(steps_of(ratios_of_neighbours));
  for (int64_t i = 0; i < draws; ++i) {
    medians.push_back(resampled_median(ratios_of_neighbours, draw, scratch));
  }
  return {pooled_median(ratios_of_neighbours), quantile(medians, 0.025), quantile(medians, 0.975)};
}

}  // namespace stretto
