// The training loop of one rank: steps, console lines, metrics, evaluation, checkpoints, orderly
// stops. With an output directory, the same call again continues where the last one stopped.
#pragma once

#include <functional>
#include <vector>

#include "base/error.h"
#include "base/fs.h"
#include "base/trace.h"
#include "train/agreement.h"
#include "train/trainer.h"

namespace stretto {

struct RunResult {
  ExitCode code = ExitCode::ok;
  std::vector<TraceEvent> tasks;  // pipeline tasks of the last step, with keep_tasks
};

struct RunOptions {
  bool print = true;                               // rank 0 prints lines and messages
  std::function<void(const StepRecord&)> on_step;  // every rank, after each step
  std::function<void(Trainer&)> on_start;          // every rank, before the first step
  Fs* fs = nullptr;  // for checkpoints, metrics and traces; nullptr: the real one
  bool keep_tasks = false;
  // Asked on rank 0 after each step; true ends the run normally, as if this had been the last step.
  std::function<bool()> enough;
  // Asked likewise; true makes the next step time each operator (Trainer::time_operators).
  std::function<bool()> by_operator;
  std::vector<Fact> program;  // what it was built from; ranks of another program are refused
  std::string trace_path;     // with config.trace; empty: OUTPUT/trace.json
  // Seconds between attempts to repeat a last save that failed; there are ten attempts.
  double save_again_after = 30;
};

// Collective over `world`; the same call on every rank.
RunResult run_training(const Config& config, Comm& world, const RunOptions& options = {});

}  // namespace stretto
