// What `train` leaves in its output directory beside metrics and checkpoints: a run record for each
// start, which says what ran, where, and how it ended. It begins with the first step; until the end
// is known it says so.
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
  // Without an output directory nothing is kept.
  TrainingRecord(const Config& config, std::vector<std::string> command, Fs& fs = posix_fs());

  void add(const StepRecord& step);  // by the first rank alone
  void end(ExitCode code);
  void end(const Error& error);

 private:
  void begin();
  void write();
  void guarded(const std::function<void()>& work);

  Fs& fs_;
  std::string path_;  // empty: no step so far
  RunRecord record_;
  double start_;
};

}  // namespace stretto
