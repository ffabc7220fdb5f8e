// Run records as the planner's observations: what `stretto plan calibrate` learns from, and what
// the planner would have said about each of them.
#pragma once

#include <vector>

#include "bench/record.h"
#include "plan/forecast.h"
#include "plan/observations.h"

namespace stretto {

// Runs that ended well, on a machine whose rates their record holds. Seconds are the median of the
// timed steps; memory stays out, because our own plan of it is exact.
std::vector<plan::Observation> observations_of(const std::vector<FoundRecord>& records);

// The forecast for each record, none where nothing can be said. Among the runs of one build on one
// machine the one with the fewest ranks that ended well (the first of them) is given to the
// forecast as known, and says so; all others are predicted from it.
struct RecordForecast {
  std::optional<plan::Forecast> forecast;
  bool known = false;  // this very run set the common factor
};
std::vector<RecordForecast> forecasts_of(const std::vector<RunRecord>& records);

}  // namespace stretto
