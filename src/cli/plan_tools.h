// The verbs below `stretto plan`: exam, clusters, calibrate.
#pragma once

#include <functional>
#include <string>

#include "cli/command.h"

namespace stretto::cli {

// Each of these verbs first calls `taken`, so that the plan itself does not run.
void add_plan_tools(Command& plan, const std::function<void()>& taken);

void write_text(const std::string& path, const std::string& text);  // throws Error

}  // namespace stretto::cli
