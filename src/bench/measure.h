// One configuration, timed: the run behind `stretto bench`.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/record.h"

namespace stretto {

struct MeasureOptions {
  int64_t steps = kTimedSteps;     // timed, at least
  int64_t warmup = kWarmupSteps;   // most steps that may be warm-up; they run in addition
  double seconds = kTimedSeconds;  // of timed steps, at least
  // Steps after those, whose operators are timed one by one for the attribution; on a CPU that
  // costs nothing, and the timed steps themselves say it. None given: 3 on a GPU.
  std::optional<int64_t> by_operator;
  std::string machine;  // JSON of a measured machine; empty: measure now (seconds, all cores)
  std::vector<std::string> command;
  std::string label;
  std::function<void(int64_t step, int64_t steps)> progress;  // after each step
  // For runs that take their steps in turns with another: called after each step, returns when the
  // next one may begin, false when there are enough (whatever `steps` and `seconds` say). `turns`
  // names the pair.
  std::function<bool()> turn;
  std::string turns;
};

// Runs `config` (valid; ranks of a launcher, else threads of this process) and describes what
// happened; empty in processes that do not hold the first rank. Running out
// of memory, divergence and other failures are answers, not exceptions: the record says so.
// micro_batch: auto becomes the largest that fits.
std::optional<RunRecord> measure(Config config, const MeasureOptions& options);

// The machine's part of a record: name and rates of one device out of `devices`. `machine` is JSON,
// which `name` stands for in messages (bad_data). Ranks that share its cores share their rates: all
// of them, unless `neighbours` knows better.
void describe_device(RunRecord& record, const std::string& name = "the machine description",
                     const Neighbours& neighbours = {});

// FLOP/s of matrix products in the run's precision on all usable cores, of the rates that `doctor`
// measured (JSON); 0: not measured.
double product_rate(const Config& config, const nlohmann::json& rates);

// Bytes: what the plan of each rank says. micro_batch must be definite.
void predict_memory(RunRecord& record);

// Whether the losses of a run show that it learned; empty when they do, else why not. Synthetic
// data has nothing to learn: only NaN and infinity are wrong there.
struct LossVerdict {
  RunStatus status = RunStatus::ok;
  std::string reason;
};
LossVerdict judge_losses(const std::vector<StepSample>& steps, bool synthetic);

}  // namespace stretto
