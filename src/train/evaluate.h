// Loss of a checkpoint on tokens, forward only.
#pragma once

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/sampler.h"

namespace stretto {

struct EvalSettings {
  Config config;           // of the checkpoint, see eval_config
  int64_t batch = 4;       // sequences at a time
  int64_t max_tokens = 0;  // 0: all
};

struct EvalResult {
  double loss = 0;     // mean over tokens, nats
  int64_t tokens = 0;  // predicted
  int64_t seq_len = 0;
};

// The configuration of a run, reduced to what it takes to use its model on one rank, in the run's
// precision. Throws bad_config where the device cannot hold such a model.
Config eval_config(const Checkpoint& checkpoint, Device device = Device::cpu);

// Reads samples [first, first + samples) into the front of `tokens` and `targets`, and fills the
// remaining rows with some that do not count in the loss.
void read_filled_batch(const Sampler& sampler, int64_t first, int64_t samples,
                       std::span<int32_t> tokens, std::span<int32_t> targets);

// Cuts the source into consecutive sequences and leaves an incomplete last one out. A source that
// is shorter than a sequence of the run is one sequence. Throws bad_data where the loss is no
// number.
EvalResult evaluate_tokens(const Checkpoint& checkpoint, const TokenSource& source,
                           const EvalSettings& settings);

}  // namespace stretto
