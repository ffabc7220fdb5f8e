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

CoreReading reading(const std::vector<int>& cores) {
  const double now = seconds_of(CLOCK_MONOTONIC);
  std::ifstream in("/proc/stat");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto ticks = read_busy_ticks(text, cores);
  const auto per_second = static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  return {now, ticks ? static_cast<double>(*ticks) / per_second : -1};
}

}  // namespace

std::string describe(const CoreUse& use) {
  return fmt::format("other programs took {:.1f} of {}", use.others, counted(use.usable, "core"));
}

CoreUse core_use(const CoreReading& first, const CoreReading& last, int64_t usable, double own,
                 double wanted) {
  constexpr double kShortest = 0.5;
  const double seconds = last.time - first.time, cores = static_cast<double>(usable);
  if (first.busy < 0 || last.busy < 0 || seconds < kShortest) return {};
  const double taken = (last.busy - first.busy) / seconds;
  return {usable, std::min(wanted, cores), std::max(0.0, taken - own / seconds),
          std::max(0.0, cores - taken)};
}

CoreWatch::CoreWatch(std::vector<int> cores)
    : cores_(std::move(cores)),
      first_(reading(cores_)),
      own_(seconds_of(CLOCK_PROCESS_CPUTIME_ID)) {}

double CoreWatch::own_seconds() const { return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_; }

CoreUse CoreWatch::use(double own, double wanted) const {
  return core_use(first_, reading(cores_), std::ssize(cores_), own, wanted);
}

}  // namespace stretto
