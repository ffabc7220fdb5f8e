// A plan in words, as JSON and as CSV.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/search.h"

namespace stretto::plan {

std::string plan_text(const Plan& plan, size_t top, bool explain, bool rejected);
nlohmann::json plan_json(const Plan& plan, size_t top);
std::string plan_csv(const Plan& plan, size_t top);

}  // namespace stretto::plan
