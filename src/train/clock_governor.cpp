#include "train/clock_governor.h"

#include <cmath>
#include <iterator>

#include "base/numbers.h"

namespace stretto {
namespace {

constexpr double kHeatUp = 5;    // seconds: a cold card is faster at first
constexpr double kSettle = 1.5;  // seconds after a change of the ceiling that are not measured
constexpr double kWatch = 4;
constexpr size_t kSteps = 8;              // a phase has at least so many
constexpr double kStepMhz = 15;           // NVIDIA's GPUs know multiples of this clock only
constexpr double kAboveMean[] = {60, 0};  // MHz over the mean clock: the ceilings to try

}  // namespace

void ClockGovernor::enter(Phase phase) {
  phase_ = phase;
  seconds_ = 0;
  steps_.clear();
}

std::optional<int64_t> ClockGovernor::change_to(int64_t limit) {
  if (limit == limit_) return std::nullopt;
  return limit_ = limit;
}

std::optional<int64_t> ClockGovernor::next_trial() {
  if (trials_ == std::size(kAboveMean)) {
    enter(Phase::done);
    return change_to(after_ < before_ ? better_ : 0);
  }
  enter(Phase::settle);
  const double above = kAboveMean[trials_++];
  if (samples_ == 0) return std::nullopt;  // other ranks may have samples: stay in phase
  return change_to(std::llround((clock_sum_ / samples_ + above) / kStepMhz) *
                   static_cast<int64_t>(kStepMhz));
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
      if (!capped_) {
        enter(Phase::done);
        return std::nullopt;
      }
      before_ = median(steps_);
      return next_trial();
    case Phase::settle:
      if (over(kSettle, 2)) enter(Phase::held);
      return std::nullopt;
    case Phase::held:
      if (!over(kWatch, kSteps)) return std::nullopt;
      if (const double seconds = median(steps_); after_ == 0 || seconds < after_) {
        after_ = seconds;
        better_ = limit_;
      }
      return next_trial();
    case Phase::done:
      break;
  }
  return std::nullopt;
}

}  // namespace stretto
