// Sweeps as arrays of Slurm jobs.
#pragma once

#include <string>
#include <vector>

#include "bench/sweep.h"

namespace stretto::cli {

struct SlurmOptions {
  std::string partition, account;
  bool wait = false;  // until every point has a row
};

// Submits the points without a record, one array per number of ranks, and prints how to watch them.
// Points that cannot run get their rows at once. `command` is the command line of this sweep
// without its launcher. With `wait`, returns when all points are finished; a job that ends without
// a record becomes a row, too.
void submit_sweep(const std::vector<PlannedPoint>& points, const SweepOptions& how,
                  const SlurmOptions& options, const std::vector<std::string>& command);

}  // namespace stretto::cli
