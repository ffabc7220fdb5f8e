// What other programs call our keys.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

// Our key for a name of another framework, or for one of ours without its group: "lr" and
// "learning-rate" are train.lr. Empty if none is known.
std::string key_called(std::string_view name);

// What a key of other programs is about, if Stretto does not have it: "grouped-query attention" for
// kv_heads. Empty if no such key is known.
std::string not_supported(std::string_view name);

}  // namespace stretto
