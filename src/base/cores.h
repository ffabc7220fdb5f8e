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

}  // namespace stretto
