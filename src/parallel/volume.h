// Bytes that one rank sends per training step, in closed form. The counters of its communicators
// must show exactly these numbers (docs/parallelism.md derives the formulas).
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

// `shape` describes the rank (rank_shape of its Config). `micro_batches` holds the number of
// sequences of each of its micro-batches in the step, which may be 0. With hybrid sharding there
// are `replicas` copies of the model, each shared by shape.dp ranks; `dp` of the result then counts
// both kinds of groups.
CommVolume expected_volume(const RankShape& shape, std::span<const int64_t> micro_batches,
                           PipelinePlace place = {}, int replicas = 1);

}  // namespace stretto
