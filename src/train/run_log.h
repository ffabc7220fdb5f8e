// What a run tells programs while it goes on: metrics.jsonl and, with log.tensorboard, an event
// file. Both get the same numbers at the same moments. One rank writes, the others keep silent.
#pragma once

#include <cstdint>
#include <span>

#include "config/config.h"
#include "train/event_file.h"
#include "train/metrics_file.h"
#include "train/saver.h"
#include "train/step_record.h"

namespace stretto {

class RunLog {
 public:
  // `writes`: whether this rank does. `step`: the last one that the run goes on from.
  RunLog(Fs& fs, const Config& config, bool writes, int64_t step);

  void step(const StepRecord& record);
  void evaluation(int64_t step, double loss);
  void save(const SaveReport& save);
  void compute_seconds(int64_t step, std::span<const double> by_rank);
  // Makes durable what was written: a run that goes on from here has all steps before.
  void sync();

 private:
  const Config& config_;
  const bool writes_;
  MetricsFile metrics_;
  EventFile events_;
};

}  // namespace stretto
