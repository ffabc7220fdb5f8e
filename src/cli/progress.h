// One self-updating line on stderr for long work; silent when stderr is no terminal.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace stretto::cli {

class ProgressLine {
 public:
  // `unit` empty: `total` counts bytes and the rate is MB/s.
  ProgressLine(std::string what, int64_t total, std::string unit = "");
  ~ProgressLine() { finish(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(int64_t done);  // from any thread; prints at most five times a second
  void finish();              // clears the line

 private:
  std::string what_;
  int64_t total_;
  std::string unit_;
  bool shown_ = false;
  bool terminal_;
  double start_ = clock_seconds();
  double last_ = start_;
  std::mutex mutex_;
};

int default_threads();  // the cores this process may use

}  // namespace stretto::cli
