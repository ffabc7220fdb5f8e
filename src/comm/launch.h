// Finds out from the environment who started this process, before any communicator exists.
#pragma once

#include <functional>
#include <string>

namespace stretto {

enum class Launcher { none, open_mpi, mpich, slurm, torchrun };
const char* name_of(Launcher launcher);

struct LaunchInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // on this machine
  int local_size = 1;
  Launcher launcher = Launcher::none;

  // One of several processes of a job that talk through MPI.
  bool wants_mpi() const {
    return launcher == Launcher::open_mpi || launcher == Launcher::mpich ||
           launcher == Launcher::slurm;
  }
};

// Reads the variables of known launchers through `get`, which returns "" for an unset one. Throws
// Error for values that cannot be ranks, and for torchrun, which starts no MPI.
LaunchInfo detect_launch(const std::function<std::string(const char*)>& get);
LaunchInfo detect_launch();  // from this process's environment

}  // namespace stretto
