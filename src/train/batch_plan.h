// How a global batch is dealt out. A step runs in rounds: each takes the next dp * micro_batch
// samples and gives every data-parallel rank its share, in rank order. The last round may be
// ragged: 48 samples in micro-batches of 11 run as 11, 11, 11, 11, 4. The gradient is
// token-weighted, so the cut does not change it.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"

namespace stretto {

struct Share {
  int64_t first = 0;  // sample, counted from the step's first
  int64_t count = 0;  // may be 0 in a ragged round
};

// One entry per round, the same number on every rank.
std::vector<Share> batch_shares(int64_t global_batch, int64_t micro_batch, int64_t dp,
                                int64_t rank);

int64_t rounds(int64_t global_batch, int64_t micro_batch, int64_t dp);

// Batch size ramp-up: `start` samples, then `increment` more in equal stretches of samples, up to
// global_batch after `samples`.
int64_t ramped_batch(const Config& config, int64_t consumed_samples);

}  // namespace stretto
