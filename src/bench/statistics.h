// What a series of step times tells, and how certainly. Pure and deterministic functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/numbers.h"

namespace stretto {

// How many steps at the beginning are warm-up: the smallest cut in [0, most] after which the
// squared standard error of the mean (MSER) is within a quarter of the smallest possible. Times
// after `most` are clipped at three median deviations from the median of the second half, so that a
// late disturbance does not move the cut. A cut at `most` means that the run had not become steady
// by then.
int64_t find_warmup(std::span<const double> seconds, int64_t most);

// Lag-1 autocorrelation in [-1, 1]; 0 for fewer than three values or a constant series.
double autocorrelation(std::span<const double> values);

struct Summary {
  int64_t count = 0;
  double median = 0, p10 = 0, p90 = 0, mean = 0;
  // 95 % interval of the median between two order statistics (binomial, no shape assumed).
  // Neighbouring steps that are alike count as fewer: n (1 - r) / (1 + r). With fewer than six such
  // steps the interval is the whole range. From 24 steps on it is at least as wide as the medians
  // of six consecutive stretches suggest (Student), because disturbances may last for many steps.
  double low = 0, high = 0;

  double half_width() const { return median > 0 ? (high - low) / 2 / median : 0; }
  bool disturbed() const { return half_width() > 0.2; }  // something else was using the machine
};

Summary summarise(std::span<const double> values);  // all zero when empty

// The median of all steps of all runs; there must be at least one step.
double pooled_median(const std::vector<std::vector<double>>& runs);

// Median of b over median of a, with a 95 % interval. Each side is a list of runs, each run a list
// of step times. The bootstrap first draws runs, then steps in them, so that with several runs the
// interval includes how much runs differ from each other. Empty runs are not allowed.
struct Ratio {
  double value = 1, low = 1, high = 1;
};

// How often it draws: fewer times where there are so many steps that draws hardly differ and each
// takes its time. A record may hold millions.
int64_t bootstrap_draws(int64_t steps);

Ratio median_ratio(const std::vector<std::vector<double>>& a,
                   const std::vector<std::vector<double>>& b);
// The same for steps that took turns: each run is a list of ratios of neighbouring steps.
Ratio median_ratio(const std::vector<std::vector<double>>& ratios_of_neighbours);

}  // namespace stretto
