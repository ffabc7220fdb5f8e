// What a series of step times says, and how surely. Pure and deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/numbers.h"

namespace stretto {

// How many steps at the beginning belong to the warm-up: the first cut in [0, most] that brings the
// squared standard error of the mean of what remains (MSER) within a quarter of the least. Times
// after `most` are clipped at three median deviations from the median of the second half, so that a
// late hiccup does not move the cut. The smallest such cut wins. A cut at `most` says that the run
// had not settled by then.
int64_t find_warmup(std::span<const double> seconds, int64_t most);

// Lag-1 autocorrelation in [-1, 1]; 0 for fewer than three values or a constant series.
double autocorrelation(std::span<const double> values);

struct Summary {
  int64_t count = 0;
  double median = 0, p10 = 0, p90 = 0, mean = 0;
  // 95 % interval of the median between two order statistics (binomial, no shape assumed).
  // Neighbouring steps that resemble each other count as fewer: n (1 - r) / (1 + r). With fewer
  // than six such steps the interval is the whole range. From 24 steps on it is at least as wide as
  // the medians of six consecutive stretches say (Student): disturbances may last for many steps.
  double low = 0, high = 0;

  double half_width() const { return median > 0 ? (high - low) / 2 / median : 0; }
  bool disturbed() const { return half_width() > 0.2; }  // something else used the machine
};

Summary summarise(std::span<const double> values);  // all zero when empty

// Of all steps of all runs, of which there is one at least.
double pooled_median(const std::vector<std::vector<double>>& runs);

// Median of b over median of a, with a 95 % interval. Each side is a list of runs, each run a list
// of step times: the bootstrap draws runs first and steps in them next, so that the interval knows
// how much one run differs from another where there are several. Empty runs are not allowed.
struct Ratio {
  double value = 1, low = 1, high = 1;
};

Ratio median_ratio(const std::vector<std::vector<double>>& a,
                   const std::vector<std::vector<double>>& b);
// The same where steps took turns: each run is a list of ratios of neighbouring steps.
Ratio median_ratio(const std::vector<std::vector<double>>& ratios_of_neighbours);

}  // namespace stretto
