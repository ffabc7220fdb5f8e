#include "base/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/control_groups.h"

namespace stretto {

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) {  // there are more cores than a cpu_set_t can hold
    cores.resize(static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
    std::iota(cores.begin(), cores.end(), 0);
  }
  return cores;
}

int64_t usable_cores() {
  const auto cores = std::ssize(allowed_cores());
  const double limit = std::ceil(core_limit().value_or(static_cast<double>(cores)));
  return std::clamp<int64_t>(static_cast<int64_t>(limit), 1, cores);
}

}  // namespace stretto
