// Slurm batch files. Values of strangers reach a shell here, so nothing is placed unquoted: names
// are held to a small alphabet, words are single-quoted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stretto {

struct SbatchJob {
  std::string name;  // [A-Za-z0-9._-]{1,128}, no "..", no leading '-'
  int64_t nodes = 1;
  int64_t tasks_per_node = 1;
  int64_t cpus_per_task = 0;  // 0: as the cluster decides
  int64_t gpus_per_node = 0;
  std::string time = "24:00:00";   // as sbatch takes it: minutes, [days-]hours:minutes:seconds
  std::string partition, account;  // empty: the cluster's default
  std::string mpi = "pmix";        // srun --mpi
  std::string program;             // path of stretto
  std::vector<std::string> words;  // of `stretto train`
  std::string output;              // directory of the run, or empty
};

// Seconds of a time limit as sbatch takes it ("90", "90:00", "01:30:00", "2-0", "2-00:00:00");
// empty: it is none. 0 is no limit.
std::optional<int64_t> seconds_of_limit(const std::string& text);

constexpr int64_t kSignalBefore = 120;  // the end of a job, in seconds

// Throws Error(usage) for a value that cannot be placed safely.
std::string sbatch_file(const SbatchJob& job);

}  // namespace stretto
