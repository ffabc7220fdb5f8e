// This machine, as the system describes it.
#pragma once

#include <string>

namespace stretto {

std::string host_name();  // "unknown" where the system does not say
// Reads a file of /proc or /sys; these are small and report no size. Empty if it is missing.
std::string kernel_file(const std::string& path);

}  // namespace stretto
