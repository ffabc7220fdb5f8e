// Two programs that take their steps in turns: whatever disturbs the machine disturbs both alike,
// so that the ratio of neighbouring steps is worth more than two runs one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/defaults.h"

namespace stretto {

// In a program that was started by run_in_turns, after each step: waits until the next one may
// begin. false: there are enough.
bool take_turn();
bool was_started_by_run_in_turns();

struct Player {
  std::vector<std::string> argv;  // trains, and calls take_turn() after every step
  std::string log;                // stdout and stderr; replaced
};

struct Turns {
  int64_t rounds = kTimedSteps;    // at least
  double seconds = kTimedSeconds;  // at least
  // Both programs get the same cores, as many as they use: of a shared machine one core can be
  // quicker than another. 0: all. `first_core` counts those that this process may use, around.
  int64_t cores = 0, first_core = 0;
  std::function<bool()> stop;  // true: both programs are ended, and Error (resumable) says so
};

// Starts both and lets them step in turns, A B then B A; their first steps run at once and belong
// to the warm-up. Step i of one is the neighbour of step i of the other. Throws Error (os_error)
// with the end of the log where a program ends early or fails.
void run_in_turns(const Player& a, const Player& b, const Turns& turns);

}  // namespace stretto
