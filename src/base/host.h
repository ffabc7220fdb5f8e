// This machine, as the system describes it.
#pragma once

#include <string>

namespace stretto {

std::string host_name();  // "unknown" where the system does not say
// A file of /proc or /sys, which has no size and is always small; empty where it is missing.
std::string kernel_file(const std::string& path);

}  // namespace stretto
