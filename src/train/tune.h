// Tuning by whole steps: trains for a few minutes while a StepTuner goes through the backend's
// choices, and keeps its result if that is faster than what was used before.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "comm/comm.h"
#include "config/config.h"

namespace stretto {

struct TuneOptions {
  int64_t draws = 200;  // of options, each held for some steps
  int64_t turns = 20;   // then: steps with the old and with the new options in turn
  // Seconds that a draw is kept, because a step's speed also depends on the options of the steps
  // before it.
  double hold = 0.4;
  // Seconds that each algorithm is timed alone, before only the fastest few take part.
  double settle = 0;
  bool keep = true;                                 // remember what is faster
  std::function<void(int64_t done)> progress = {};  // of draws + 2 turns
};

struct TuneResult {
  std::vector<Tunable> choices;              // `now`: before
  std::vector<int> chosen;                   // after
  std::vector<std::vector<double>> effects;  // seconds, by option
  double before = 0, after = 0;              // median seconds of a step, in turn
  double uncertainty = 0;                    // of before / after - 1: one standard error
  bool kept = false;
  std::string why_not;               // kept
  std::optional<Error> not_written;  // faster, but it could not be stored
  struct Draw {
    std::vector<int> options;
    double seconds;  // a step's
  };
  std::vector<Draw> draws;
};

// Fills in `before`, `after` and `uncertainty` from the seconds of steps that were timed in turn.
void compare_turns(TuneResult& result, std::span<const double> before,
                   std::span<const double> after);

// Fills in the last part of a result: calls `remember` if what was found is faster and `wanted`.
// Where that cannot write (io_error), minutes of measuring are in the result still.
void keep_if_faster(TuneResult& result, bool wanted, const std::function<void()>& remember);

// For one rank. Throws bad_config if the backend has nothing to choose, and
// io_error, before anything is measured, if what is found could not be stored.
TuneResult tune_steps(const Config& config, Comm& world, const TuneOptions& options = {});

}  // namespace stretto
