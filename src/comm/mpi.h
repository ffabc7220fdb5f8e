// Ranks as processes, started by mpirun or srun, on one machine or several. Host memory only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/comm.h"

namespace stretto {

// Whether this program was built with MPI, and how the library calls its version.
bool mpi_built_in();
std::string mpi_version();

// The world communicator. The first call initialises MPI, and MPI is finalised with the last
// communicator. While an exception unwinds the stack it is not, because finalising would wait for
// the peers: then the process must end by abort(). Throws Error if the program was built without
// MPI.
std::unique_ptr<Comm> make_mpi_comm();

// Runs body(world) in this rank. An error of any rank is printed once and ends all ranks with its
// exit code; the function does not return then. MPI itself waits for ever for a rank that does not
// start: after `start_seconds` (0: never) the job ends with exit code 81.
void run_mpi_ranks(const std::function<void(Comm&)>& body, double start_seconds = 0);

}  // namespace stretto
