// What one training step did: the source of the console line, the metrics file and run records.
#pragma once

#include <array>
#include <cstdint>

#include "backend/cuda/telemetry.h"
#include "backend/profile.h"
#include "comm/comm.h"

namespace stretto {

// Where the wall time of a step went on this rank, in seconds. The parts add up to `total`.
struct StepTimes {
  double total = 0;
  std::array<double, kOpClasses> ops{};  // by OpClass
  double comm_dp = 0, comm_tp = 0;       // exposed: time this rank waited
  double comm_pp = 0;                    // for another stage: bubble and transfers
  double data = 0;                       // reading samples
  // GPUs time operators, and what they wait for NCCL, only in steps with `trace` and where
  // Trainer::time_operators was called. Elsewhere `ops` and `comm_...` are 0.
  bool ops_known = true, waits_known = true;
  // Without waiting for others.
  double compute() const { return total - comm_dp - comm_tp - comm_pp; }
  double host() const {  // everything else
    double rest = total - comm_dp - comm_tp - comm_pp - data;
    for (const double seconds : ops) rest -= seconds;
    return rest;
  }
};

struct StepRecord {
  int64_t step = 0;              // from 1, skipped ones included
  int64_t steps = 0;             // planned
  int64_t updates = 0;           // steps that changed the weights
  int64_t consumed_samples = 0;  // including this step
  int64_t consumed_tokens = 0;
  int64_t global_batch = 0;
  double loss = 0;  // mean over the global batch's tokens, nats
  double learning_rate = 0;
  double loss_scale = 1;
  double grad_norm = 0;
  double zeros = 0;
  bool skipped = false;
  int64_t skipped_total = 0;               // overflowed steps so far
  int64_t nan_total = 0;                   // steps whose loss was not finite
  CommCounters comm_dp, comm_tp, comm_pp;  // of this rank
  StepTimes times;
  // On GPUs only filled when operators are timed one by one: with `trace`, or in a step for which
  // Trainer::time_operators was called (by_operator).
  std::array<OpTotals, kOps> operators{};
  bool by_operator = false;
  uint64_t comm_calls() const { return comm_dp.calls + comm_tp.calls + comm_pp.calls; }
  size_t device_bytes = 0;  // GPU memory in use after the step; 0 on the CPU
  double peak = 0;          // peak FLOP/s of the rank's device as its maker states it; 0: unknown
  GpuWindow gpu;            // since the step before; without samples on the CPU or without NVML

  double tokens_per_second() const {
    return times.total > 0 ? static_cast<double>(tokens) / times.total : 0;
  }
  int64_t tokens = 0;  // of this step
};

}  // namespace stretto
