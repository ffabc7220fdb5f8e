// Whether a GPU that its power cap holds back is faster with a ceiling for its clock, found out in
// the first steps of a run: the clock it has on average, as it comes, and one a little above are
// tried as the ceiling, and the better one stays if steps are shorter with it.
//
// Why it is faster is not known; it is also where nothing but matrix products runs
// (docs/cuda_tried.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace stretto {

struct ClockObservation {
  double seconds = 0;    // of a step; the same number on every rank
  bool capped = false;   // by power, on any rank
  double clock_mhz = 0;  // of this rank's GPU, mean over `samples`
  int samples = 0;
};

class ClockGovernor {
 public:
  // One step. The ceiling from now on, where it changes; 0 lifts it.
  std::optional<int64_t> observe(const ClockObservation& step);

  bool done() const { return phase_ == Phase::done; }
  int64_t limit() const { return limit_; }  // in force; 0: none
  // Median seconds of a step as the card comes and with the better ceiling; 0 where not measured.
  double before() const { return before_; }
  double after() const { return after_; }

 private:
  enum class Phase { heat_up, as_it_comes, settle, held, done };
  void enter(Phase phase);
  std::optional<int64_t> change_to(int64_t limit);
  std::optional<int64_t> next_trial();
  bool over(double seconds, size_t steps) const {
    return seconds_ >= seconds && steps_.size() >= steps;
  }

  Phase phase_ = Phase::heat_up;
  double seconds_ = 0;         // of this phase
  std::vector<double> steps_;  // of this phase
  bool capped_ = false;
  double clock_sum_ = 0;
  int samples_ = 0;
  size_t trials_ = 0;  // begun
  int64_t limit_ = 0, better_ = 0;
  double before_ = 0, after_ = 0;
};

}  // namespace stretto
