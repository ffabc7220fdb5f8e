// Ranks as threads of one process: no launcher, no MPI. `stretto train -n 4`, tests, TSan.
#pragma once

#include <functional>

#include "comm/comm.h"

namespace stretto {

// Runs body(world) once per rank, each on its own thread, and returns when all have stopped.
//
// If one rank throws, the job ends: peers blocked in a call, or making their next one, get
// Error(peer_lost); after all ranks stopped the first error is thrown again. A rank that returns
// while a peer waits for it ends the job too. Peers that do not stop within `grace_seconds` of the
// first error (they compute, or hang) are not waited for: the error is printed and the process
// ends with its exit code, because a thread cannot be ended safely from outside.
void run_thread_ranks(int n, const std::function<void(Comm&)>& body, double grace_seconds = 4);

}  // namespace stretto
