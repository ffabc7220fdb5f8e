// Tuning by whole steps: trains for a few minutes while a StepTuner goes through the backend's
// choices, and keeps what it found if it holds beside what was in use before.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/comm.h"
#include "config/config.h"

namespace stretto {

struct TuneOptions {
  int64_t draws = 200;  // of options, each held for some steps
  int64_t turns = 20;   // then: with the old options and with the new ones, as often
  double hold = 0.4;    // seconds: how fast a step is depends on what the steps before it drew
  double settle = 0;    // seconds: of each algorithm alone, before the fastest few take part
  bool keep = true;     // remember what is faster
  std::function<void(int64_t done)> progress = {};  // of draws + 2 turns
};

struct TuneResult {
  std::vector<Tunable> choices;              // `now`: before
  std::vector<int> chosen;                   // after
  std::vector<std::vector<double>> effects;  // seconds, by option
  double before = 0, after = 0;              // median seconds of a step, in turn
  double uncertainty = 0;                    // of before / after - 1: one standard error
  bool kept = false;
  struct Draw {
    std::vector<int> options;
    double seconds;  // a step's
  };
  std::vector<Draw> draws;
};

// One rank. Throws bad_config where the backend has nothing to choose.
TuneResult tune_steps(const Config& config, Comm& world, const TuneOptions& options = {});

}  // namespace stretto
