// Compiled instead of mpi.cpp where no MPI was found.
#include "base/error.h"
#include "comm/mpi.h"

namespace stretto {

bool mpi_built_in() { return false; }

std::string mpi_version() { return "none"; }

std::unique_ptr<Comm> make_mpi_comm() {
  throw Error(ExitCode::usage, "ranks started by MPI, but this program was built without it",
              "install libopenmpi-dev openmpi-bin (or libmpich-dev) and build again, or use "
              "threads: stretto train -n RANKS");
}

void run_mpi_ranks(const std::function<void(Comm&)>& body, double) { body(*make_mpi_comm()); }

}  // namespace stretto
