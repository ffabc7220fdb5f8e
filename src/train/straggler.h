// Names ranks that compute more slowly than ranks with the same work. Compute times (without
// waiting) are gathered once per window of steps. A rank whose score (fastest / own) stays below
// the threshold for several windows in a row is named once, and again if it has recovered in
// between. Times are compared per token of the global batch, which may grow from step to step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stretto {

struct StragglerOptions {
  int64_t window = 5;  // steps
  double threshold = 0.75;
  int64_t windows = 3;  // in a row
};

class StragglerWatch {
 public:
  // `stage_of[r]`: the pipeline stage of rank r. Stages differ in work, so a rank is compared with
  // the fastest rank of its stage; a rank alone on its stage, with its own fastest window so far.
  explicit StragglerWatch(std::vector<int> stage_of, StragglerOptions options = {});

  // This rank's compute seconds of one step of `tokens`, of all ranks together. True when a window
  // is full: gather window_seconds() of all ranks (collective) and give them to judge().
  bool add(double compute_seconds, int64_t tokens);
  double window_seconds() const { return seconds_ / static_cast<double>(options_.window); }
  // One warning line per rank that has just become slow. Starts the next window.
  std::vector<std::string> judge(const std::vector<double>& seconds_by_rank);

 private:
  double fastest_of_stage(size_t rank, const std::vector<double>& per_token) const;

  std::vector<int> stage_of_;
  StragglerOptions options_;
  double seconds_ = 0;  // of this window, as are the next two
  int64_t tokens_ = 0;
  int64_t steps_ = 0;
  std::vector<double> own_best_;  // seconds per token, by rank; 0: none yet
  std::vector<int64_t> slow_;     // windows in a row, by rank
};

}  // namespace stretto
