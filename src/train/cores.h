// Which cores a rank computes on. Ranks of one machine share the cores that the process may use in
// equal, contiguous slices, so that a rank's threads and memory stay near each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "config/config.h"

namespace stretto {

// What the system lets this process use, and how much there is.
struct CoreSet {
  std::vector<int> allowed;  // numbers, ascending
  int64_t machine = 1;       // all that are switched on
  int64_t limit = 0;         // cores whose time all ranks may take together; 0: there is none

  // Somebody (mpirun, srun, taskset) chose cores for this process.
  bool bound() const { return static_cast<int64_t>(allowed.size()) < machine; }
  int64_t limited(int64_t cores) const { return limit > 0 ? std::min(cores, limit) : cores; }
};
CoreSet cores_of_process();

// How many of them each of `ranks` ranks on this machine gets, at least 1. Processes that were
// bound one by one have `allowed` to themselves (`own`); threads of one process share it.
int64_t cores_per_rank(const CoreSet& cores, int64_t ranks, bool own);

// The slice of rank `rank` of `ranks` that share `allowed`; empty where there are too few: then no
// rank is bound, and the system's scheduler deals them out.
std::vector<int> slice_of_rank(const std::vector<int>& allowed, int64_t rank, int64_t ranks);

// Threads per rank: config.threads, else its share of the cores.
int threads_per_rank(const Config& config, int64_t ranks_here);

// Binds the calling thread, and with it the threads it starts, to its slice. Leaves alone what a
// launcher has bound, and ranks with more threads (config.threads) than cores in a slice.
void bind_rank(const Config& config, int64_t local_rank, int64_t ranks_here);

}  // namespace stretto
