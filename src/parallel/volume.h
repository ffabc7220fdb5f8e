// Bytes that one rank sends per training step, in closed form: what the counters of its
// communicators must show exactly (docs/parallelism.md states the formulas).
#pragma once

#include <cstdint>
#include <span>

#include "account/memory.h"
#include "comm/comm.h"

namespace stretto {

// Only the byte fields are used. `embedding` joins first and last stage (tied token table).
struct CommVolume {
  CommCounters dp;
  CommCounters tp;
  CommCounters pp;
  CommCounters embedding;
};

struct PipelinePlace {
  int ranks = 1;
  int rank = 0;
};

// `shape` describes the rank (rank_shape of its Config); `micro_batches` holds the sequences of
// each of its micro-batches in the step, 0 allowed. Hybrid sharding: shape.dp ranks share a copy of
// the model, of which there are `replicas`; dp then counts both kinds of groups.
CommVolume expected_volume(const RankShape& shape, std::span<const int64_t> micro_batches,
                           PipelinePlace place = {}, int replicas = 1);

}  // namespace stretto
