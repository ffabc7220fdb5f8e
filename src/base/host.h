// The name of this machine.
#pragma once

#include <string>

namespace stretto {

std::string host_name();  // "unknown" where the system does not say

}  // namespace stretto
