// Run records as the planner's observations: what `stretto plan calibrate` learns from, and what
// the planner would have said about each of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/record.h"
#include "plan/forecast.h"
#include "plan/observations.h"

namespace stretto {

// Runs that ended well, on a machine whose rates their record holds. Seconds are the median of the
// timed steps; memory is that of a rank, where it was measured.
std::vector<plan::Observation> observations_of(const std::vector<FoundRecord>& records);

// The forecast for each record, none where nothing can be said. Among the runs of one build on one
// machine the one with the fewest ranks that ended well (the longest step of them) is given to the
// forecast as known, and says so; all others are predicted from it.
struct RecordForecast {
  std::optional<plan::Forecast> forecast;
  bool known = false;  // this very run set the common factor: its forecast is no prediction
  double memory = 0;   // bytes per rank that the process will take; 0: unknown (GPUs)
};
std::vector<RecordForecast> forecasts_of(const std::vector<RunRecord>& records);

// What every table and page shows of it; 0: unknown. Seconds: told by the runs beside it where
// there are any, else as they were foreseen before the run. Bytes per rank: of its process where
// that is known, else of its plan.
double foreseen_seconds(const RunRecord& record, const RecordForecast& forecast);
double foreseen_memory(const RunRecord& record, const RecordForecast& forecast);

// Bytes that a process takes for `ranks` ranks of this configuration, itself left out: the plan of
// each rank in whole huge pages, and what libraries and threads need beside it.
double process_bytes(const Config& config, int64_t ranks);

// Predicted beside measured, for each run that ended well, and the median error of those that were
// predicted.
struct ForecastReport {
  std::string text;
  size_t rows = 0;                            // predicted, the known run left out
  size_t memory_rows = 0;                     // whose memory was measured and predicted
  double median_error = 0, memory_error = 0;  // relative
  double worst_error = 0, worst_memory_error = 0;
  size_t left_out = 0;   // records without a line: not timed, or on a machine that nobody measured
  size_t disturbed = 0;  // runs among these, and the known one, that shared their cores with others
};
ForecastReport compare_forecasts(const std::vector<RunRecord>& records);

}  // namespace stretto
