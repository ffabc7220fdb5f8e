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

// Submits the points that have no record yet, one array per number of ranks, and says how to look
// after them. `command` is this sweep's own command line without launcher. Points that cannot run
// get their rows at once. With `wait`, returns when all are finished: a job that ended without a
// record becomes a row, too.
void submit_sweep(const std::vector<PlannedPoint>& points, const SweepOptions& how,
                  const SlurmOptions& options, const std::vector<std::string>& command);

}  // namespace stretto::cli
