// What the ranks of a measured run report. It is gathered on rank 0, whether ranks are threads of
// one process or processes of a launcher.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "bench/record.h"
#include "train/run.h"

namespace stretto {

class RankReports {
 public:
  // One rank's figures, step by step. Only that rank uses the object.
  class Rank {
   public:
    void add(const StepRecord& step);

   private:
    friend class RankReports;
    std::vector<double> rows_;         // kColumns figures per step
    std::vector<double> by_operator_;  // the same, for steps with operators timed one by one
  };

  Rank join(bool first_rank);  // at the start of a rank
  // Called by the first rank after each step, so that its steps are known even if the run fails.
  // Of steps that time operators one by one only the number is kept.
  void note(const StepRecord& step);
  // One process: by how many bytes it grew, how many ranks with how many threads it holds, which
  // cores it may use, and what these did during the timed steps.
  struct Process {
    int64_t grown = 0, ranks = 1, threads = 1;
    std::vector<int> cores;
    std::optional<CoreWatch> watch;  // one rank of each process has it
  };
  // After the last step. Collective over `world`.
  void gather(Comm& world, const Rank& mine, const RunResult& result, const Coordinates& at,
              const Process& process);

  // Rank 0's process knows the whole run; the others only know that they do not.
  bool has_first() const { return has_first_; }
  bool empty() const { return !joined_; }
  int64_t steps() const { return std::ssize(steps_); }  // noted so far
  int64_t steps_by_operator() const { return noted_by_operator_; }
  ExitCode code() const { return code_; }
  const Neighbours& neighbours() const { return neighbours_; }  // known after gather()

  // Fills in what the steps tell: times, warm-up, attribution, operators, timeline, memory, nodes.
  // Attribution and operators come from the steps that timed operators one by one, if there are
  // any. `allowance`: at most so many steps may be warm-up.
  void fill(RunRecord& record, int64_t allowance) const;

 private:
  static constexpr size_t kColumns = kParts + 4 * kOps + 2;

  void gather_cores(Comm& world, const std::string& host, const Process& process);
  void gather_timeline(Comm& world, const RunResult& result, const Coordinates& at);

  std::mutex mutex_;
  bool joined_ = false, has_first_ = false;
  ExitCode code_ = ExitCode::ok;
  std::vector<StepSample> steps_;           // of rank 0
  std::vector<GpuWindow> gpu_;              // of rank 0, per step
  size_t device_bytes_ = 0;                 // the most that was in use on rank 0's GPU
  std::vector<double> rows_, by_operator_;  // mean over ranks
  std::vector<std::vector<RunTask>> timeline_;
  int64_t grown_rank_ = 0, grown_total_ = 0, nodes_ = 1;
  int64_t noted_by_operator_ = 0;
  CoreUse cores_;
  Neighbours neighbours_;
};

}  // namespace stretto
