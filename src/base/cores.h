// The processor's cores, as the system numbers them.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

namespace stretto {

// Those that the calling thread may run on (taskset, a launcher, a container), ascending; all that
// are switched on where the system does not say.
std::vector<int> allowed_cores();

// How many threads they can keep busy: fewer where a control group limits the process's time.
int64_t usable_cores();

// Watches for a moment, before a thread goes to sleep, until done() is true; false: it is not.
//
// On a core of its own that is some hundred microseconds, longer than it takes to wake a sleeping
// thread: two in step would both sleep each time. Counted in looks, so that a thread which has to
// share its core has not used up its time before it looked.
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
    std::this_thread::yield();  // somebody may be waiting for this very core
  }
  return done();
}

}  // namespace stretto
