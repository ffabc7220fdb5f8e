// What a rank computes with: its share of the cores, or a GPU.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "comm/comm.h"
#include "config/config.h"

namespace stretto {

// Options for backends that keep the choices which a StepTuner goes through.
struct TunableOptions {
  bool collect = false;
  // Seconds that each algorithm is timed alone, before only the fastest few are kept.
  double settle = 0;
};

// Whether Slurm gave each rank GPUs of its own, hidden from the other ranks.
bool gpus_per_task();

// Ranks of a machine take its GPUs in turn; more ranks than GPUs share them.
int gpu_of(const Comm& world);

// Peak FLOP/s of the rank's device in the run's precision, as its maker states it; 0 if unknown. A
// CPU has no stated peak, and for ranks that share a GPU it would mean nothing.
double promised_peak(const Config& config, const Comm& world);

std::unique_ptr<Backend> make_rank_backend(const Config& config, const Comm& world,
                                           const TunableOptions& tunables = {});

}  // namespace stretto
