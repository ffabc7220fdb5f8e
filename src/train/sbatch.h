// Slurm batch files. Values given by users become part of a shell script, so nothing goes in
// unquoted: names must use a small alphabet, other words are put in single quotes.
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
  std::string directory;           // where the words were typed; their paths begin there
  std::vector<std::string> words;  // of `stretto train`
  std::string output;              // directory of the run, or empty
};

// Seconds of a time limit in the forms that sbatch knows ("90", "90:00", "01:30:00", "2-0",
// "2-00:00:00"); nullopt if `text` has none of them. 0 means no limit.
std::optional<int64_t> seconds_of_limit(const std::string& text);

// Seconds before the end of a job at which Slurm sends its signal.
constexpr int64_t kSignalBefore = 120;

// Throws Error(usage) for a value that cannot be written safely.
std::string sbatch_file(const SbatchJob& job);

}  // namespace stretto
