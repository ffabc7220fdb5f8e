// Between a running trainer and checkpoints: what a rank writes, and how any checkpoint becomes the
// state of any layout.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/shard.h"
#include "train/trainer.h"

namespace stretto {

// This rank's part: what its optimizer owns, replicated data on one rank only. Weights as fp32
// where there is a master. `shard` may be one from an earlier step: its buffer is used again.
void collect_shard(Trainer& trainer, Shard& shard);

// Step, config and trainer state; the files come when they are written.
Manifest manifest_of(Trainer& trainer);

// Sets weights, moments, counters and loss scale of this rank, whatever layout wrote them. Moments
// that the checkpoint does not have (an imported model) become zero.
void restore(Trainer& trainer, const Checkpoint& checkpoint, const OnProgress& moved = unheard);

Config config_of(const Manifest& manifest);
// Loss scale 0: the checkpoint is an imported model and has none.
TrainerState state_of(const Manifest& manifest);
std::string state_json(const TrainerState& state, const DataMark& data = {});
DataMark data_of(const Manifest& manifest);  // none where an older version or an import wrote it

}  // namespace stretto
