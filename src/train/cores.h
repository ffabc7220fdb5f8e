// Which cores a rank computes on. Ranks of one machine share the cores that the process may use in
// equal, contiguous slices, so that a rank's threads and memory stay near each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "config/config.h"

namespace stretto {

// The cores that the system lets this process use, and how many the machine has.
struct CoreSet {
  std::vector<int> allowed;  // core numbers, ascending
  int64_t machine = 1;       // cores of the machine that are online
  int64_t limit = 0;  // how many cores' worth of time all ranks may take together; 0: no limit

  // Whether somebody (mpirun, srun, taskset) has chosen cores for this process.
  bool bound() const { return static_cast<int64_t>(allowed.size()) < machine; }
  int64_t limited(int64_t cores) const { return limit > 0 ? std::min(cores, limit) : cores; }
};
CoreSet cores_of_process();

// How many cores each of `ranks` ranks on this machine gets, at least 1. `own`: each rank is a
// process that was bound separately, so `allowed` is its own; else all ranks share `allowed`.
int64_t cores_per_rank(const CoreSet& cores, int64_t ranks, bool own);

// The slice of rank `rank` when `ranks` ranks share `allowed`. Empty where there are fewer cores
// than ranks: then no rank is bound, and the system's scheduler places them.
std::vector<int> slice_of_rank(const std::vector<int>& allowed, int64_t rank, int64_t ranks);

// Threads per rank: config.threads, else its share of the cores.
int threads_per_rank(const Config& config, int64_t ranks_here);

// Binds the calling thread, and with it the threads that it starts, to its slice. Leaves ranks
// alone that a launcher has bound, and those with more threads (config.threads) than cores in a
// slice.
void bind_rank(const Config& config, int64_t local_rank, int64_t ranks_here);

}  // namespace stretto
