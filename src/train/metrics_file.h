// metrics.jsonl in the run directory: one JSON object per step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/log_file.h"

namespace stretto {

class MetricsFile {
 public:
  // An empty directory name writes nothing. Creates the directory; throws cannot_create if that
  // fails. Removes the lines of steps after `step`, which this run repeats, and an incomplete last
  // line.
  MetricsFile(Fs& fs, const std::string& directory, int64_t step);

  void write(const std::string& line);
  void sync();  // as LogFile's

 private:
  std::optional<LogFile> file_;
};

}  // namespace stretto
