// What the planner expects of a run before it is made.
#pragma once

#include "bench/record.h"

namespace stretto {

// Seconds per step on the record's machine, of which describe_device() has said what one rank
// delivers. Left alone where nothing can be said: rates not measured, GPUs, layers dealt out by
// hand.
void predict_time(RunRecord& record);

}  // namespace stretto
