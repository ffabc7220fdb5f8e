// Starts the ranks of a job: processes where a launcher (mpirun, srun) made them, else threads of
// this process.
#pragma once

#include <functional>

#include "comm/comm.h"
#include "config/config.h"
#include "config/reader.h"

namespace stretto {

// How many ranks there are to use: those of the launcher, else `asked` (0: as the configuration
// says). Throws a usage error where both are given and differ.
int64_t available_ranks(int64_t asked);

// Makes dp x tp x pp equal `ranks` by choosing dp, unless the command line sets dp. Throws as
// require_world() does, but leaves degrees that cannot be to require_valid(), which must follow.
void fit_world(ResolvedConfig& resolved, int64_t ranks);
// Throws bad_config unless dp x tp x pp is `ranks`; 0 is any number.
void require_world(const Config& config, int64_t ranks);

// How many ranks share the cores and the memory of this machine.
int64_t ranks_here(const Config& config);

// micro_batch: auto becomes the largest that fits `budget` bytes per rank. Throws out_of_memory.
void choose_micro_batch(Config& config, size_t budget);

// Resolves micro_batch: auto and checks that every rank's memory plan fits this machine.
void fit_memory(Config& config);

// Runs run(world) on every rank of the configuration, each bound to its share of the cores.
void run_ranks(const Config& config, const std::function<void(Comm&)>& run);

}  // namespace stretto
