// metrics.jsonl in the run directory: one JSON object per step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/log_file.h"

namespace stretto {

class MetricsFile {
 public:
  // Empty directory: writes nothing. Creates the directory; throws cannot_create if that fails.
  // Lines of steps after `step`, which this run takes again, go, and so does an unfinished one.
  MetricsFile(Fs& fs, const std::string& directory, int64_t step);

  void write(const std::string& line);
  void sync();  // as LogFile's

 private:
  std::optional<LogFile> file_;
};

}  // namespace stretto
