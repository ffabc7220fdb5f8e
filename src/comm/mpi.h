// Ranks as processes, started by mpirun or srun, on one machine or many. Host memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/comm.h"

namespace stretto {

// Whether this program was built with MPI, and the library's own version line.
bool mpi_built_in();
std::string mpi_version();

// The world. Initialises MPI; the last communicator destroyed finalises it, unless the stack
// unwinds: then the process must end by abort(), because finalising would wait for the peers.
// Throws Error when the program was built without MPI.
std::unique_ptr<Comm> make_mpi_comm();

// Runs body(world) in this rank. An error of any rank is printed once and ends all ranks with its
// exit code: the function then does not return. MPI's own start has no time-out: after
// `start_seconds` (0: never) of waiting for a peer that does not come, the job ends with 81.
void run_mpi_ranks(const std::function<void(Comm&)>& body, double start_seconds = 0);

}  // namespace stretto
