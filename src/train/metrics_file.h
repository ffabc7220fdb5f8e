// metrics.jsonl in the run directory: one JSON object per step. A log must never stop training:
// what cannot be written waits in memory, and each further line tries again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fs.h"

namespace stretto {

class MetricsFile {
 public:
  // Empty directory: writes nothing. Creates the directory; throws cannot_create if that fails.
  // Lines of steps after `step`, which this run takes again, go, and so does an unfinished one.
  MetricsFile(Fs& fs, const std::string& directory, int64_t step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void write(const std::string& line);
  // Makes what was written durable. Where the file has lost its name, further lines go into a new
  // one.
  void sync();

 private:
  void flush(bool durable);
  void reopen();
  void take_note(const Error& error);  // of a failed write

  Fs& fs_;
  std::string path_;
  std::unique_ptr<File> file_;
  int64_t bytes_ = 0;     // of the file
  std::string waiting_;   // what comes after them
  bool failing_ = false;  // the user was told
  int64_t lost_ = 0;      // lines for which there was no room in memory
};

}  // namespace stretto
