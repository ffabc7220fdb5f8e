// Run records as observations of the planner: what `stretto plan calibrate` learns from, and what
// the planner would have predicted for each of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/text_table.h"
#include "bench/record.h"
#include "plan/forecast.h"
#include "plan/observations.h"

namespace stretto {

// The runs that ended well and whose record contains the rates of their machine. Seconds are the
// median of timed steps; memory is per rank, if it was measured.
std::vector<plan::Observation> observations_of(const std::vector<FoundRecord>& records);

// The forecast for each record, none where nothing can be said. Of the runs of one build on one
// machine, one is given to the forecast as known, and marked: the run with the fewest ranks that
// ended well, or the longest step of several. All others are predicted from it.
struct RecordForecast {
  std::optional<plan::Forecast> forecast;
  bool known = false;  // this very run set the common factor, so its forecast predicts nothing
  double memory = 0;   // bytes per rank that its process should take; 0: unknown (GPUs)
};
std::vector<RecordForecast> forecasts_of(const std::vector<RunRecord>& records);

// What tables and pages show; 0: unknown. Seconds: as predicted from the runs beside it if there
// are any, else as predicted before the run. Bytes per rank: of its process if known, else of its
// plan.
double foreseen_seconds(const RunRecord& record, const RecordForecast& forecast);
double foreseen_memory(const RunRecord& record, const RecordForecast& forecast);

// Bytes that a process with `ranks` ranks of this configuration takes in addition to itself: each
// rank's plan, rounded up to huge pages, and what libraries and threads need.
double process_bytes(const Config& config, int64_t ranks);

// Predicted beside measured for each run that ended well, and the median error of those that were
// predicted.
struct ForecastReport {
  TextTable table;
  size_t rows = 0;                            // predicted runs, without the known one
  size_t memory_rows = 0;                     // with both measured and predicted memory
  double median_error = 0, memory_error = 0;  // relative
  double worst_error = 0, worst_memory_error = 0;
  size_t left_out = 0;  // records without a line: not timed, or no rates of their machine
  // Runs, the known one included, that shared their cores with other programs.
  size_t disturbed = 0;
};
ForecastReport compare_forecasts(const std::vector<RunRecord>& records);

}  // namespace stretto
