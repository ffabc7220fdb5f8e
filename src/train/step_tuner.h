// Finds, for many independent choices at once, the options that make a whole step fastest.
//
// A kernel timed alone says little on a GPU that its power cap slows down, because the power it
// draws slows down everything else. So whole steps are timed, each with options drawn at random for
// all choices, and a linear model explains their times: seconds = base + the effect of each option.
// Every step informs about every choice, so a few hundred steps are enough for dozens of choices.
// After each round the slower half of the remaining options of each choice is dropped, until one is
// left.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace stretto {

class StepTuner {
 public:
  // options[i]: how many options choice i has; at least one.
  StepTuner(const std::vector<int>& options, uint64_t seed);

  // The options that the next step should use: one per choice, drawn from those that remain.
  std::vector<int> draw();
  void observe(std::span<const int> drawn, double seconds);

  int rounds() const;  // halvings until one option of each choice is left
  void halve();        // ends a round
  // Estimated seconds of option o of choice i, relative to the mean of that choice's options.
  const std::vector<std::vector<double>>& effects() const { return effects_; }
  std::vector<int> best() const;  // the fastest that remain, by the estimate

 private:
  void estimate();

  struct Step {
    std::vector<int> drawn;
    double seconds;
  };
  std::vector<std::vector<int>> left_;        // remaining options, by choice
  std::vector<std::vector<double>> effects_;  // of all options, by choice
  std::vector<Step> steps_;
  CounterRng random_;
  uint64_t draws_ = 0;
};

}  // namespace stretto
