// Continuing a run by repeating its command.
#pragma once

#include <string>
#include <vector>

#include "base/fs.h"
#include "train/trainer.h"

namespace stretto {

struct Difference {
  std::string key;    // "train.steps"
  std::string saved;  // in the checkpoint
  std::string given;  // in this command
};

struct ConfigDifferences {
  std::vector<Difference> conflicts;  // another model, other data, other numbers: not this run
  std::vector<Difference> changed;    // what a run may change when it goes on
};

// `weights_only`: the checkpoint is an imported model, only its shape is binding. `same_tokens`:
// the data is known to be the same, whatever its files are called.
ConfigDifferences compare_configs(const Config& saved, const Config& given, bool weights_only,
                                  bool same_tokens);

// Collective. Puts the trainer into the state of the newest checkpoint under its output that
// verifies, and returns its step; -1 when there is none. Damaged ones are named and passed over.
// Throws bad_config on conflicts and bad_data when there are checkpoints but none verifies.
int64_t resume(Trainer& trainer, Fs& fs, bool speaks);

}  // namespace stretto
