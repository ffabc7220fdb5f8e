#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cores.h"
#include "base/log.h"
#include "base/units.h"

namespace stretto::cli {

ProgressLine::ProgressLine(std::string what, int64_t total, std::string unit)
    : what_(std::move(what)),
      total_(total),
      unit_(std::move(unit)),
      terminal_(stderr_is_terminal()) {}

void ProgressLine::update(int64_t done) {
  if (!terminal_) return;
  const std::lock_guard lock(mutex_);
  const double now = clock_seconds();
  if (now - last_ < 0.2) return;
  last_ = now;
  const double rate = static_cast<double>(done) / (now - start_);
  const double left = static_cast<double>(std::max<int64_t>(total_ - done, 0)) / rate;
  const double percent = 100.0 * static_cast<double>(done) / static_cast<double>(total_);
  const std::string speed = unit_.empty() ? fmt::format("{:.1f} MB/s", rate / 1e6)
                                          : fmt::format("{} {}/s", format_count(rate), unit_);
  fmt::print(stderr, "\r{:<8} {:5.1f} %  {}  {} left\033[K", what_, percent, speed,
             format_seconds(left));
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::finish() {
  const std::lock_guard lock(mutex_);
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

int default_threads() { return static_cast<int>(usable_cores()); }

}  // namespace stretto::cli
