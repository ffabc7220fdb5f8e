// What a rank computes with: its share of the cores, or a GPU.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "comm/comm.h"
#include "config/config.h"

namespace stretto {

// The backend keeps the choices that a StepTuner goes through.
struct TunableOptions {
  bool collect = false;
  double settle = 0;  // seconds that each algorithm runs alone before the fastest few are kept
};

// Slurm gave each rank GPUs that the others do not see.
bool gpus_per_task();

// Ranks of a machine take its GPUs in turn; more ranks than GPUs share them.
int gpu_of(const Comm& world);

// FLOP/s that the maker promises of the rank's device in the run's precision. 0: unknown. A CPU has
// none before it was measured, and a GPU that ranks share is none of theirs alone.
double promised_peak(const Config& config, const Comm& world);

std::unique_ptr<Backend> make_rank_backend(const Config& config, const Comm& world,
                                           const TunableOptions& tunables = {});

}  // namespace stretto
