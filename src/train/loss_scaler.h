// Dynamic loss scaling for fp16: halves after `hysteresis` overflowed steps, doubles after
// `growth_interval` good ones in a row. Other precisions use a scale of 1 that never moves.
#pragma once

#include <algorithm>

#include "config/config.h"

namespace stretto {

class LossScaler {
 public:
  LossScaler(const LossScale& settings, Precision precision)
      : settings_(settings),
        dynamic_(precision == Precision::amp_fp16),
        state_{dynamic_ ? settings.initial : 1.0, 0, settings.hysteresis} {}

  struct State {
    double scale = 1;
    int64_t good_steps = 0;
    int64_t tolerance = 0;  // overflows left before the scale falls
  };

  bool dynamic() const { return dynamic_; }
  double scale() const { return state_.scale; }
  // The last step overflowed with the smallest scale there is.
  bool stuck() const { return stuck_; }

  void update(bool overflowed) {
    if (!dynamic_) return;
    stuck_ = overflowed && state_.scale <= settings_.minimum;
    if (overflowed) {
      state_.good_steps = 0;
      if (--state_.tolerance <= 0) state_.scale = std::max(settings_.minimum, state_.scale / 2);
      return;
    }
    if (++state_.good_steps < settings_.growth_interval) return;
    state_ = {state_.scale * 2, 0, settings_.hysteresis};
  }

  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  LossScale settings_;
  bool dynamic_;
  bool stuck_ = false;
  State state_;
};

}  // namespace stretto
