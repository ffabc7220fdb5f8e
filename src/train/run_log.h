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
  // `writes`: whether this rank does. `prints`: whether it also prints what is no step, where the
  // console has the lines of metrics.jsonl (log.format=json); steps are printed by log.every.
  // `step`: the last one that the run goes on from.
  RunLog(Fs& fs, const Config& config, bool writes, bool prints, int64_t step);

  void step(const StepRecord& record);
  void evaluation(int64_t step, double loss);
  void save(const SaveReport& save);
  void compute_seconds(int64_t step, std::span<const double> by_rank);
  // Makes durable what was written: a run that goes on from here has all steps before.
  void sync();

 private:
  void note(const std::string& line);  // one that is no step

  const Config& config_;
  const bool writes_, prints_;
  MetricsFile metrics_;
  EventFile events_;
};

}  // namespace stretto
