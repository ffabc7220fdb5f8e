// The clock for all durations.
#pragma once

#include <chrono>
#include <cstdint>

namespace stretto {

// Seconds of the steady clock, which can be compared between processes of one machine.
inline double clock_seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

// The same in whole nanoseconds.
inline int64_t monotonic_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace stretto
