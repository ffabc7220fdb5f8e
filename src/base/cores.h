// The processor's cores, as the system numbers them.
#pragma once

#include <cstdint>
#include <vector>

namespace stretto {

// Those that the calling thread may run on (taskset, a launcher, a container), ascending; all that
// are switched on where the system does not say.
std::vector<int> allowed_cores();

// How many threads they can keep busy: fewer where a control group limits the process's time.
int64_t usable_cores();

// For a thread that watches a value: spares the core's other thread, and power.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace stretto
