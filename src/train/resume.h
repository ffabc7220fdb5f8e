// Continuing a run by repeating its command.
#pragma once

#include <string>
#include <vector>

#include "base/fs.h"
#include "train/trainer.h"

namespace stretto {

struct Difference {
  std::string key;    // such as "train.steps"
  std::string saved;  // in the checkpoint
  std::string given;  // in this command
};

struct ConfigDifferences {
  std::vector<Difference> conflicts;  // would make it another run: model, data or numbers
  std::vector<Difference> changed;    // may change when a run goes on
};

// `weights_only`: the checkpoint is an imported model, of which only the shape is binding.
// `same_tokens`: both runs read the same tokens, whatever their files are called.
ConfigDifferences compare_configs(const Config& saved, const Config& given, bool weights_only,
                                  bool same_tokens);

// Collective. Puts the trainer into the state of the newest checkpoint under its output that
// verifies, and returns its step; -1 when there is none. Damaged checkpoints are reported and
// skipped. Throws bad_config on conflicts, and bad_data when there are checkpoints but none of them
// verifies.
int64_t resume(Trainer& trainer, Fs& fs, bool speaks);

}  // namespace stretto
