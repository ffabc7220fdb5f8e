// What other programs call our keys.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

// The key that this name, ours without its group or another framework's, stands for: "lr" and
// "learning-rate" are train.lr. Empty: none is known.
std::string key_called(std::string_view name);

// "grouped-query attention" for kv_heads: what a key of other programs is about that Stretto does
// not have. Empty: none is known by this name.
std::string not_supported(std::string_view name);

}  // namespace stretto
