// Ranks as threads of one process, without a launcher or MPI: for `stretto train -n 4`, tests and
// TSan.
#pragma once

#include <functional>

#include "comm/comm.h"

namespace stretto {

// Runs body(world) once per rank, each on a thread of its own, and returns when all have stopped.
//
// If one rank throws, the job ends: peers that are blocked in a call, or that make their next one,
// get Error(peer_lost), and when all ranks have stopped the first error is thrown again. A rank
// that returns while a peer waits for it ends the job, too. A thread cannot be stopped safely from
// outside: if a peer has not stopped `grace_seconds` after the first error (it computes, or hangs),
// the error is printed and the process ends with its exit code.
void run_thread_ranks(int n, const std::function<void(Comm&)>& body, double grace_seconds = 4);

}  // namespace stretto
