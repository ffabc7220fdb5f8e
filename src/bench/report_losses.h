// Curves of losses as a report carries them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/training_curve.h"

namespace stretto {

// How many steps two points of a loss curve stand for, the same in all runs. With few runs the page
// shows every step of 1000; with hundreds it stays small.
int64_t curve_stretch(const std::vector<RunRecord>& records);

// [step, loss] of the lowest and the highest loss in each stretch of steps, and of both ends. Since
// stretches are the same in all runs, a spike that runs share is visible in each of them.
nlohmann::json loss_curve(const RunRecord& record, int64_t stretch);

// {"steps": [[step, loss], ...], "evaluations": ...}; null if there are no steps.
nlohmann::json training_losses(const TrainingCurve& curve);

// How far apart the losses of runs are that differ only in how their work is divided, for the
// largest group of them; null if there is no group.
nlohmann::json loss_spread(const std::vector<RunRecord>& records);

}  // namespace stretto
