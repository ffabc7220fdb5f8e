// What other programs call our keys.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

// The key that this name, ours without its group or another framework's, stands for: "lr" and
// "learning-rate" are train.lr. Empty: none is known.
std::string key_called(std::string_view name);

}  // namespace stretto
