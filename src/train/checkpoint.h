// Between a running trainer and checkpoints: what a rank writes, and how any checkpoint becomes the
// state of any layout.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/shard.h"
#include "train/trainer.h"

namespace stretto {

// Collects this rank's part: what its optimizer owns, and what is replicated if this rank is the
// one that saves it. Weights are taken as fp32 where there is a master. `shard` may be that of an
// earlier step: its buffer is used again.
void collect_shard(Trainer& trainer, Shard& shard);

// Step, configuration and trainer state. The files are added when they have been written.
Manifest manifest_of(Trainer& trainer);

// Reads this rank's part of each parameter from a checkpoint of any layout, with zeros where the
// vocabulary is padded, and gives it to `assign`: unit, place in the unit, values, how many.
using AssignWeights = std::function<void(size_t, int64_t, const float*, int64_t)>;
void read_weights(const Checkpoint& checkpoint, const Gpt& gpt, int64_t tp_rank,
                  const OnProgress& moved, const AssignWeights& assign);

// Sets the weights of a model that one rank holds whole.
void load_weights(const Checkpoint& checkpoint, Gpt& gpt);

// Sets this rank's weights, moments, counters and loss scale from a checkpoint of any layout.
// Moments that the checkpoint does not have (an imported model) become zero.
void restore(Trainer& trainer, const Checkpoint& checkpoint, const OnProgress& moved = unheard);

Config config_of(const Manifest& manifest);
// A loss scale of 0 means that the checkpoint is an imported model, which has none.
TrainerState state_of(const Manifest& manifest);
std::string state_json(const TrainerState& state, const DataMark& data = {});
DataMark data_of(const Manifest& manifest);  // none if an older version or `import` wrote it

}  // namespace stretto
