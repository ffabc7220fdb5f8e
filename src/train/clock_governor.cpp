#include "train/clock_governor.h"

#include <cmath>

#include "base/numbers.h"

namespace stretto {
namespace {

constexpr double kHeatUp = 5;    // seconds: a cold card is not held back yet
constexpr double kSettle = 1.5;  // after the ceiling changed
constexpr double kWatch = 4;
constexpr size_t kSteps = 8;      // at least, of what is compared
constexpr int64_t kStepMhz = 15;  // clocks of NVIDIA's GPUs are multiples of it

}  // namespace

void ClockGovernor::enter(Phase phase) {
  phase_ = phase;
  seconds_ = 0;
  steps_.clear();
}

std::optional<int64_t> ClockGovernor::observe(const ClockObservation& step) {
  if (done()) return std::nullopt;
  seconds_ += step.seconds;
  steps_.push_back(step.seconds);
  switch (phase_) {
    case Phase::heat_up:
      if (over(kHeatUp, kSteps)) enter(Phase::as_it_comes);
      return std::nullopt;
    case Phase::as_it_comes:
      capped_ = capped_ || step.capped;
      clock_sum_ += step.clock_mhz * step.samples;
      samples_ += step.samples;
      if (!over(kWatch, kSteps)) return std::nullopt;
      if (!capped_ || samples_ == 0) {
        enter(Phase::done);
        return std::nullopt;
      }
      before_ = median(steps_);
      limit_ = std::llround(clock_sum_ / samples_ / kStepMhz) * kStepMhz;
      enter(Phase::settle);
      return limit_;
    case Phase::settle:
      if (over(kSettle, 2)) enter(Phase::held);
      return std::nullopt;
    case Phase::held:
      if (!over(kWatch, kSteps)) return std::nullopt;
      after_ = median(steps_);
      enter(Phase::done);
      if (after_ < before_) return std::nullopt;
      limit_ = 0;
      return limit_;
    case Phase::done:
      break;
  }
  return std::nullopt;
}

}  // namespace stretto
