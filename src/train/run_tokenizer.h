// A run's own copy of its tokenizer: the run can be moved, used from anywhere, and outlives the
// file that data.tokenizer names.
#pragma once

#include <optional>
#include <string>

#include "base/fs.h"
#include "config/config.h"
#include "data/tokenizer.h"

namespace stretto {

std::string tokenizer_copy(const std::string& output);  // its path

// The copy that a run, or an import, has left in `output`, if any. One that cannot be read throws
// what to do about it.
std::optional<Tokenizer> kept_tokenizer(Fs& fs, const std::string& output);

// Leaves the tokenizer as tokenizer.json in the run's directory, once; for one rank. A copy that is
// there stays: one that differs is cannot_create for a run that begins (`fresh`), else a warning.
// Likewise a file that is there but holds no tokenizer we can read, the named one or the copy: a
// run that begins refuses it with the code of what is wrong, one that goes on warns. A tokenizer
// that is not there or cannot be kept is a warning, too: training does not need it.
void keep_tokenizer(Fs& fs, const Config& config, bool fresh, bool speaks);

}  // namespace stretto
