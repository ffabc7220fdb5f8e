#include "comm/launch.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace stretto {
namespace {

struct Names {
  Launcher launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

// The order matters. mpirun inside a Slurm job leaves Slurm's names in place, so its own come
// first. A Slurm batch script has SLURM_PROCID without being a step of the job; only steps have
// SLURM_STEP_NUM_TASKS.
constexpr Names kNames[] = {
    {Launcher::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::mpich, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE"},
    {Launcher::torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};

int number(const char* name, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  // Slurm writes "4(x2)" and "4,3" for tasks per node: the first node's count comes first.
  const bool list = stop != end && (*stop == '(' || *stop == ',');
  if (error != std::errc() || (stop != end && !list) || value < 0) {
    throw Error(ExitCode::usage, fmt::format("environment variable {}='{}'", name, text),
                "it must be a number; start the ranks with mpirun or srun");
  }
  return value;
}

}  // namespace

const char* name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::none:
      return "none";
    case Launcher::open_mpi:
      return "mpirun (Open MPI)";
    case Launcher::mpich:
      return "mpiexec (MPICH)";
    case Launcher::slurm:
      return "srun";
    case Launcher::torchrun:
      return "torchrun";
  }
  return "unknown";
}

LaunchInfo detect_launch(const std::function<std::string(const char*)>& get) {
  for (const Names& names : kNames) {
    const std::string rank = get(names.rank);
    const std::string size = get(names.size);
    if (rank.empty() || size.empty()) continue;
    // `srun --mpi=pmi2` sets MPICH's names too, but only Slurm's say which rank of its machine it
    // is.
    const bool of_srun = names.launcher == Launcher::mpich && get(names.local_rank).empty() &&
                         get("SLURM_PROCID") == rank && get("SLURM_STEP_NUM_TASKS") == size;
    if (of_srun) continue;
    LaunchInfo info;
    info.launcher = names.launcher;
    info.rank = number(names.rank, rank);
    info.size = number(names.size, size);
    if (info.size < 1 || info.rank >= info.size) {
      throw Error(ExitCode::usage,
                  fmt::format("{}={} with {}={}", names.rank, rank, names.size, size),
                  "a rank must be below the number of ranks; start them with mpirun or srun");
    }
    const std::string local_rank = get(names.local_rank);
    const std::string local_size = get(names.local_size);
    info.local_rank = local_rank.empty() ? info.rank : number(names.local_rank, local_rank);
    info.local_size = local_size.empty() ? info.size : number(names.local_size, local_size);
    // The count is that of the first node; nodes may differ, and this one has at least local_rank +
    // 1.
    if (info.local_size <= info.local_rank) info.local_size = info.local_rank + 1;
    return info;
  }
  return {};
}

LaunchInfo detect_launch() {
  return detect_launch([](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  });
}

}  // namespace stretto
