// How the ranks of a sweep's point are started: as threads of one process, as processes of mpirun
// or srun, or by an array of Slurm jobs that each run a point of the sweep.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/record.h"
#include "machine/machine.h"

namespace stretto {

enum class SweepLauncher { threads, mpirun, srun, slurm };
SweepLauncher launcher_from_name(std::string_view name);  // throws Error (usage)

// The words to put before the program; "{ranks}" stands for the number of ranks. Empty for threads
// and slurm. Throws Error if the launcher is not installed.
std::vector<std::string> launch_words(SweepLauncher launcher, const MpiInfo& mpi, bool root);

// The words with the number filled in; none for one rank, which needs no launcher.
std::vector<std::string> words_for_ranks(const std::vector<std::string>& words, int64_t ranks);

// What started the ranks of this process, in the words of records: threads, mpirun or srun.
std::string launcher_here();

// The command of a record, quoted for a shell, with what starts its ranks. Options that were given
// to the launcher itself are missing, because no process knows them.
std::string command_line(const RunRecord& record);

// One array of jobs, for points with the same number of ranks.
struct SweepArray {
  std::string name;                // of the job: [A-Za-z0-9._-]
  int64_t ranks = 1;               // tasks per point
  int64_t threads = 0;             // cores per task; 0: as the cluster decides
  double seconds = kPointTimeout;  // time limit of a point
  int64_t at_once = 0;             // points that may run at the same time; 0: no limit of ours
  std::string partition, account;
  std::string directory;             // of the sweep: logs go there
  std::vector<std::string> command;  // `stretto sweep ...`; each job adds --only ID
  std::vector<std::string> ids;      // of the points
};

// Values from files are quoted before they reach the shell. Throws Error (usage).
std::string array_file(const SweepArray& array);

}  // namespace stretto
