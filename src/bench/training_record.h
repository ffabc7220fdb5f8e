// The run record that `train` leaves in its output directory, beside metrics and checkpoints, for
// each start: what ran, where, and how it ended. It is written from the first step on, and says
// that the run is not over until it is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/record.h"
#include "train/step_record.h"

namespace stretto {

class TrainingRecord {
 public:
  // Keeps nothing if there is no output directory.
  TrainingRecord(const Config& config, std::vector<std::string> command, Fs& fs = posix_fs());

  void add(const StepRecord& step);  // called by the first rank only
  void end(ExitCode code);
  void end(const Error& error);

 private:
  void begin();
  void write();
  void guarded(const std::function<void()>& work);

  Fs& fs_;
  std::string path_;  // empty before the first step
  RunRecord record_;
  double start_;
};

}  // namespace stretto
