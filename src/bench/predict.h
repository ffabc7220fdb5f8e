// What the planner expects of a run before it is made.
#pragma once

#include "bench/record.h"

namespace stretto {

// Seconds per step on the record's machine, before anything of it is measured. Left alone where
// plan::forecast_run has nothing to say.
void predict_time(RunRecord& record);

}  // namespace stretto
