// The learning rate as a pure function of the step.
#pragma once

#include "config/config.h"

namespace stretto {

// `step` counts updates from 1. Warm-up is linear up to `lr`. After it the rate is constant, falls
// to `min_lr` along a line or half a cosine, or (wsd) stays constant and falls along a line over
// the last `decay` steps. A run that is shorter than its warm-up ends before it reaches `lr`.
double learning_rate(const TrainConfig& train, int64_t step);

}  // namespace stretto
