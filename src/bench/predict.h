// What the planner expects of a run before it is made.
#pragma once

#include "bench/record.h"

namespace stretto {

// Predicts seconds per step on the record's machine, without any measured run. Does nothing where
// plan::forecast_run has nothing to say.
void predict_time(RunRecord& record);

}  // namespace stretto
