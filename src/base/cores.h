// The processor's cores, as the system numbers them.
#pragma once

#include <vector>

namespace stretto {

// Those that the calling thread may run on (taskset, a launcher, a container), ascending; all that
// are switched on where the system does not say.
std::vector<int> allowed_cores();

}  // namespace stretto
