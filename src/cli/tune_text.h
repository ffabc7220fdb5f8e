// What `stretto tune` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "train/tune.h"

namespace stretto::cli {

std::string tune_text(const TuneResult& result);
nlohmann::ordered_json tune_json(const TuneResult& result);

}  // namespace stretto::cli
