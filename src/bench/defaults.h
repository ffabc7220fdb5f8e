// How long is measured by default; the same for one run, a sweep and a comparison.
#pragma once

#include <cstdint>

namespace stretto {

constexpr int64_t kTimedSteps = 12;   // at least
constexpr double kTimedSeconds = 2;   // of timed steps, at least; disturbances often last that long
constexpr int64_t kWarmupSteps = 4;   // at most so many steps are taken for warm-up
constexpr int64_t kMostSteps = 1000;  // of a run, unless more are asked for
constexpr double kPointTimeout = 600;  // seconds of a sweep's point

}  // namespace stretto
