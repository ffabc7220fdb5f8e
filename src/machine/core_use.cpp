#include "machine/core_use.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>

#include "base/units.h"
#include "machine/system_text.h"

namespace stretto {
namespace {

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double busy_seconds(const std::vector<int>& cores) {
  std::ifstream in("/proc/stat");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto ticks = read_busy_ticks(text, cores);
  const auto per_second = static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  return ticks ? static_cast<double>(*ticks) / per_second : -1;
}

}  // namespace

std::string describe(const CoreUse& use) {
  return fmt::format("other programs took {:.1f} of {}", use.others, counted(use.usable, "core"));
}

CoreWatch::CoreWatch(std::vector<int> cores)
    : cores_(std::move(cores)),
      start_(seconds_of(CLOCK_MONOTONIC)),
      own_(seconds_of(CLOCK_PROCESS_CPUTIME_ID)),
      busy_(busy_seconds(cores_)) {}

double CoreWatch::own_seconds() const { return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_; }

CoreUse CoreWatch::use(double own, double wanted) const {
  constexpr double kShortest = 0.5;
  const double busy = busy_seconds(cores_), seconds = seconds_of(CLOCK_MONOTONIC) - start_;
  if (busy_ < 0 || busy < 0 || seconds < kShortest) return {};
  const auto usable = static_cast<double>(cores_.size());
  const double taken = (busy - busy_) / seconds;
  return {std::ssize(cores_), std::min(wanted, usable), std::max(0.0, taken - own / seconds),
          std::max(0.0, usable - taken)};
}

}  // namespace stretto
