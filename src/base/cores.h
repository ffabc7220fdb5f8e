// The processor's cores, as the system numbers them.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

namespace stretto {

// The cores on which the calling thread may run (as set by taskset, a launcher, a container),
// ascending. All online cores if the system does not say.
std::vector<int> allowed_cores();

// How many threads these cores can keep busy. Fewer if a control group limits the process's time.
int64_t usable_cores();

// Spins for a short time until done() is true, before a thread goes to sleep. Returns false if
// done() is still false.
//
// On a core of its own it spins for some hundred microseconds, longer than it takes to wake a
// sleeping thread: otherwise two threads that work in step would both sleep each time. The limit is
// a number of checks, not a time, so that a thread on a shared core gets to check as often.
template <typename Done>
bool watch_until(Done done) {
  constexpr int kTurns = 60, kLooks = 64;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int look = 0; look < kLooks; ++look) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
    std::this_thread::yield();  // another thread may be waiting for this core
  }
  return done();
}

}  // namespace stretto
