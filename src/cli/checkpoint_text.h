// The tokenizer that belongs to a checkpoint.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"

namespace stretto::cli {

// The tokenizer of a model: "bytes", a path, or empty if none is known. `given` comes first, then
// data.tokenizer=bytes of the run, then the run's own copy (tokenizer.json in its directory), then
// the path in its configuration. That path is relative to where training began, and a resumed run
// may lack it. If none of these is there: bytes, if the vocabulary has no room for more, or for
// little more and the data were a text.
std::string tokenizer_name(const Checkpoint& checkpoint, const std::string& given);

// The tokenizer itself. Throws bad_config if none is known.
Tokenizer tokenizer_for(const Checkpoint& checkpoint, const std::string& given);

}  // namespace stretto::cli
