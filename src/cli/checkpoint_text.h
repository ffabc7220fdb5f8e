// The tokenizer that belongs to a checkpoint.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"

namespace stretto::cli {

// The tokenizer of a model: "bytes", a path, or nothing where none is known. `given` comes first,
// then data.tokenizer=bytes of the run, then the run's own copy (tokenizer.json in its directory),
// then the path of its configuration, which is relative to where training began, and which a run
// that went on may have left out. Where nobody says: bytes, if the vocabulary has
// room for no more, or for little more and the data were a text.
std::string tokenizer_name(const Checkpoint& checkpoint, const std::string& given);

// That tokenizer. bad_config where none is known.
Tokenizer tokenizer_for(const Checkpoint& checkpoint, const std::string& given);

}  // namespace stretto::cli
