// A plan in words, as JSON and as CSV.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/search.h"

namespace stretto::plan {

struct PlanPage {
  size_t top = 10;        // layouts to show
  bool explain = false;   // the tree of terms of each
  bool rejected = false;  // list what was rejected
  size_t width = 80;      // columns of a line
};
std::string plan_text(const Plan& plan, const PlanPage& page);
nlohmann::json plan_json(const Plan& plan, size_t top);
std::string plan_csv(const Plan& plan, size_t top);

}  // namespace stretto::plan
