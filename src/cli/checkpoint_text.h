// The tokenizer that belongs to a checkpoint.
#pragma once

#include <string>

#include "config/config.h"
#include "data/tokenizer.h"

namespace stretto::cli {

// The path of the tokenizer that `given`, or else the run's configuration, names; empty: bytes.
std::string tokenizer_path(const Config& config, const std::string& given);

// That tokenizer, or bytes for a vocabulary of 256. bad_config when neither can be.
Tokenizer tokenizer_for(const Config& config, const std::string& given);

}  // namespace stretto::cli
