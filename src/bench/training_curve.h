// metrics.jsonl of a training run, as far as its report shows it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fs.h"
#include "bench/record.h"

namespace stretto {

// A line that tells of a step or of an evaluation.
struct MetricsLine {
  int64_t step = 0;
  bool evaluation = false;
  double loss = 0;  // nats per token; NaN if it was not finite
  // Seconds of the step by part, as rank 0 spent it. None where operators were not timed (GPUs).
  std::optional<std::array<double, kParts>> parts;
};

// Empty for other lines, and for damaged ones.
std::optional<MetricsLine> parse_metrics_line(std::string_view line);

// Losses of all steps and evaluations, in the order of their steps. Records keep only the last
// thousand steps and no evaluations.
struct TrainingCurve {
  struct Point {
    int64_t step = 0;
    double loss = 0;
  };
  std::vector<Point> steps, evaluations;
};

// Reads DIRECTORY/metrics.jsonl, if there is one, of the run whose starts left `records`, and sets
// the attribution of each: the mean over its timed steps.
TrainingCurve read_training_curve(Fs& fs, const std::string& directory,
                                  std::vector<RunRecord>& records);

}  // namespace stretto
