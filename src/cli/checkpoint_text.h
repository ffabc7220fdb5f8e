// The tokenizer that belongs to a checkpoint.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/tokenizer.h"

namespace stretto::cli {

// The path of the tokenizer that `given`, or else the run's configuration, names; empty: bytes. A
// run's own copy (tokenizer.json in its directory) comes before what its configuration says: a path
// is relative to where training began, and a run that went on may have left it out.
std::string tokenizer_path(const Checkpoint& checkpoint, const Config& config,
                           const std::string& given);

// Whether text is bytes to a model for which no tokenizer file is named: where `given` or the run
// says so, or where its vocabulary is about theirs and its data were no tokens made elsewhere.
bool bytes_are_tokens(const Checkpoint& checkpoint, const std::string& given);

// That tokenizer, or bytes. bad_config when neither can be.
Tokenizer tokenizer_for(const Checkpoint& checkpoint, const Config& config,
                        const std::string& given);

}  // namespace stretto::cli
