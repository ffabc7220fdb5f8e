// metrics.jsonl in the run directory: one JSON object per step. A log must never stop training, so
// a write that fails is reported once and the file is given up.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace stretto {

class MetricsFile {
 public:
  // Empty directory: writes nothing. Creates the directory; throws cannot_create if that fails.
  // Lines of steps after `step`, which this run takes again, go, and so does an unfinished one.
  MetricsFile(const std::string& directory, int64_t step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void write(const std::string& line);

 private:
  std::FILE* file_ = nullptr;
  std::string path_;
};

}  // namespace stretto
