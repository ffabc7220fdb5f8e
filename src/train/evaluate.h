// Loss of a checkpoint on tokens, forward only.
#pragma once

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/token_source.h"

namespace stretto {

struct EvalSettings {
  Config config;           // of the checkpoint, see eval_config
  int64_t batch = 4;       // sequences at a time
  int64_t max_tokens = 0;  // 0: all
};

struct EvalResult {
  double loss = 0;     // mean over tokens, nats
  int64_t tokens = 0;  // predicted
};

// What is left of a run's configuration to use its model on one rank, in the run's precision.
// Throws bad_config where the device cannot have such a model.
Config eval_config(const Checkpoint& checkpoint, Device device = Device::cpu);

// Cuts the source into consecutive sequences; a last one that is not full is left out.
EvalResult evaluate_tokens(const Checkpoint& checkpoint, const TokenSource& source,
                           const EvalSettings& settings);

}  // namespace stretto
