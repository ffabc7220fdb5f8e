#include "train/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/control_groups.h"
#include "base/cores.h"
#include "base/log.h"
#include "comm/launch.h"

namespace stretto {
namespace {

// Read once, before any rank is bound to some of the cores.
const CoreSet& unbound_cores() {
  static const CoreSet cores = cores_of_process();
  return cores;
}

}  // namespace

CoreSet cores_of_process() {
  return {allowed_cores(), std::max<int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN)),
          static_cast<int64_t>(std::ceil(core_limit().value_or(0)))};
}

int64_t cores_per_rank(const CoreSet& cores, int64_t ranks, bool own) {
  const auto allowed = static_cast<int64_t>(cores.allowed.size());
  const int64_t share = cores.limited(own && cores.bound() ? cores.machine : allowed);
  return std::max<int64_t>(1, std::min(allowed, share / std::max<int64_t>(1, ranks)));
}

std::vector<int> slice_of_rank(const std::vector<int>& allowed, int64_t rank, int64_t ranks) {
  const auto count = static_cast<int64_t>(allowed.size());
  if (ranks < 1 || count < ranks) return {};
  return {allowed.begin() + rank * count / ranks, allowed.begin() + (rank + 1) * count / ranks};
}

int threads_per_rank(const Config& config, int64_t ranks_here) {
  if (config.threads > 0) return static_cast<int>(config.threads);
  return static_cast<int>(cores_per_rank(unbound_cores(), ranks_here, detect_launch().wants_mpi()));
}

void bind_rank(const Config& config, int64_t local_rank, int64_t ranks_here) {
  if (config.device != Device::cpu || ranks_here == 1) return;
  const CoreSet& cores = unbound_cores();
  const int64_t threads = threads_per_rank(config, ranks_here);
  if (detect_launch().wants_mpi() && cores.bound()) {
    const auto fair = cores.limited(cores.machine) / ranks_here;
    if (local_rank == 0 && threads < fair && config.threads == 0) {
      spdlog::info(
          "ranks are bound to {} of {} cores each by their launcher; --bind-to none, or "
          "--map-by slot:PE={}, gives them all",
          threads, cores.machine, fair);
    }
    return;
  }
  const std::vector<int> slice = slice_of_rank(cores.allowed, local_rank, ranks_here);
  if (static_cast<int64_t>(slice.size()) < threads) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : slice) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);  // if the system refuses, the rank runs on any core
}

}  // namespace stretto
