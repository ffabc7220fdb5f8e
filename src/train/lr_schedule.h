// The learning rate as a pure function of the step.
#pragma once

#include "config/config.h"

namespace stretto {

// `step` counts updates from 1. Warm-up is linear to `lr`; then constant, or down to `min_lr` by a
// line, by half a cosine, or (wsd) constant first and by a line over the last `decay` steps. A run
// that is shorter than its warm-up ends on the way up.
double learning_rate(const TrainConfig& train, int64_t step);

}  // namespace stretto
