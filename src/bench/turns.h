// Two programs that take their steps in turns. Whatever disturbs the machine disturbs both alike,
// so the ratio of neighbouring steps is more reliable than two runs one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/defaults.h"

namespace stretto {

// To be called after each step in a program that run_in_turns has started. Waits until the next
// step may begin; false: there have been enough.
bool take_turn();
bool was_started_by_run_in_turns();

struct Player {
  std::vector<std::string> argv;  // a program that trains and calls take_turn() after every step
  std::string log;                // stdout and stderr; replaced
};

struct Turns {
  int64_t rounds = kTimedSteps;    // at least
  double seconds = kTimedSeconds;  // at least
  // Both programs get the same cores, because on a shared machine one core can be faster than
  // another. `cores` is as many as they use; 0: all. `first_core` counts among those that this
  // process may use, modulo their number.
  int64_t cores = 0, first_core = 0;
  // If it returns true, both programs are ended, and Error (resumable) is thrown.
  std::function<bool()> stop;
};

// Starts both programs and lets them step in turns, A B, then B A. Their first steps run at the
// same time and are part of the warm-up. Step i of one is the neighbour of step i of the other.
// Throws Error (os_error), with the end of the log, if a program ends early or fails.
void run_in_turns(const Player& a, const Player& b, const Turns& turns);

}  // namespace stretto
