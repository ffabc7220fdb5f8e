// Finds out, in the first steps of a run, whether a GPU that its power cap slows down is faster
// with a ceiling for its clock. Two ceilings are tried: the mean clock that the GPU had without
// one, and a little more. The better one stays if it makes steps shorter.
//
// Why a ceiling helps is not known. It also helps where nothing but matrix products runs
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
  // To be called after each step. Returns a new ceiling when it should change; 0 lifts it.
  std::optional<int64_t> observe(const ClockObservation& step);

  bool done() const { return phase_ == Phase::done; }
  int64_t limit() const { return limit_; }  // in force; 0: none
  // Median seconds of a step without a ceiling and with the better one; 0 where not measured.
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
