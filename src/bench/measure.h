// Times one configuration: the run behind `stretto bench`.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/record.h"

namespace stretto {

struct MeasureOptions {
  int64_t steps = kTimedSteps;  // timed, at least
  // At most so many steps count as warm-up; they are run in addition.
  int64_t warmup = kWarmupSteps;
  double seconds = kTimedSeconds;  // of timed steps, at least
  // Additional steps, after the timed ones, in which operators are timed one by one to attribute
  // the time. On a CPU this costs nothing and the timed steps themselves do it. Default: 3 on a
  // GPU.
  std::optional<int64_t> by_operator;
  // JSON of a measured machine; empty: measure it now, which takes seconds and all cores.
  std::string machine;
  std::vector<std::string> command;
  std::string label;
  std::function<void(int64_t step, int64_t steps)> progress;  // after each step
  // For a run that takes its steps in turns with another one. Called after each step; returns when
  // the next one may begin, or false when there were enough (whatever `steps` and `seconds` say).
  // `turns` names the pair of runs.
  std::function<bool()> turn;
  std::string turns;
};

// The `train.steps` of a timed configuration: equal for all runs of up to kMostSteps steps, so that
// learning rates and losses agree, and records of them compare.
int64_t scheduled_steps(int64_t steps, int64_t warmup);

// Runs `config` (valid; on the ranks of a launcher, else on threads of this process) and describes
// what happened. Empty in processes without the first rank. Running out of memory, divergence and
// other failures are results, not exceptions: the record describes them. micro_batch=auto becomes
// the largest that fits.
std::optional<RunRecord> measure(Config config, const MeasureOptions& options);

// Fills in the machine's part of a record: name and rates of one of `devices` devices. `machine` is
// JSON, called `name` in messages (bad_data). Ranks that share the machine's cores share its rates;
// unless `neighbours` knows better, all of them do.
void describe_device(RunRecord& record, const std::string& name = "the machine description",
                     const Neighbours& neighbours = {});

// FLOP/s of matrix products in the run's precision on all usable cores, from the rates that
// `doctor` measured (JSON); 0: not measured.
double product_rate(const Config& config, const nlohmann::json& rates);

// Predicts memory from each rank's plan. micro_batch must be definite.
void predict_memory(RunRecord& record);

// Whether the losses of a run show that it learned, and the reason if they do not. Synthetic data
// has nothing to learn, so there only NaN and infinity are wrong.
struct LossVerdict {
  RunStatus status = RunStatus::ok;
  std::string reason;
};
LossVerdict judge_losses(const std::vector<StepSample>& steps, bool synthetic);

}  // namespace stretto
