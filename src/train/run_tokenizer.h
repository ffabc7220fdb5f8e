// A run keeps its own copy of its tokenizer, so that the run can be moved and does not depend on
// the file that data.tokenizer names.
#pragma once

#include <optional>
#include <string>

#include "base/fs.h"
#include "config/config.h"
#include "data/tokenizer.h"

namespace stretto {

std::string tokenizer_copy(const std::string& output);  // its path

// The copy in `output` that a run or an import has left, if any. Throws, with what to do, if it
// cannot be read.
std::optional<Tokenizer> kept_tokenizer(Fs& fs, const std::string& output);

// Writes the tokenizer that the configuration names as tokenizer.json into the run's directory,
// unless one is there. Called by one rank.
//
// A run that begins (`fresh`) fails if the existing copy differs from the named tokenizer
// (cannot_create), or if either file holds no tokenizer that we can read (with the code of that
// error). A run that resumes warns instead. If the named file does not exist, or the copy cannot be
// written, any run only warns: training does not need the tokenizer.
void keep_tokenizer(Fs& fs, const Config& config, bool fresh, bool speaks);

}  // namespace stretto
