// metrics.jsonl in the run directory: one JSON object per step. A log must never stop training:
// lines that cannot be written are kept in memory, and each further line tries again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fs.h"

namespace stretto {

class MetricsFile {
 public:
  // An empty directory name writes nothing. Creates the directory; throws cannot_create if that
  // fails. Removes the lines of steps after `step`, which this run repeats, and an incomplete last
  // line.
  MetricsFile(Fs& fs, const std::string& directory, int64_t step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void write(const std::string& line);
  // Makes what was written durable. If the file was removed or renamed, further lines go into a new
  // one.
  void sync();

 private:
  void flush(bool durable);
  void reopen();
  void take_note(const Error& error);  // after a failed write

  Fs& fs_;
  std::string path_;
  std::unique_ptr<File> file_;
  int64_t bytes_ = 0;     // bytes in the file
  std::string waiting_;   // lines still to be written
  bool failing_ = false;  // the user has been told
  int64_t lost_ = 0;      // lines dropped because too many were waiting
};

}  // namespace stretto
