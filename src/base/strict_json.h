// Reads JSON from files of unknown origin: no duplicate keys, no deep nesting, clear errors.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace stretto {

constexpr int kMaxJsonDepth = 64;

// Parses a text that must be a single JSON value. Throws bad_data naming `name` and the place.
// Duplicate keys and nesting deeper than kMaxJsonDepth are errors; memory is proportional to the
// text.
nlohmann::json parse_json(std::string_view text, const std::string& name);

// For readers of JSON Lines: finds the string at the top-level key `key` of an object, with the
// same checks, but without building a tree. False if there is no such key. `out` keeps its capacity
// from call to call.
[[nodiscard]] bool parse_json_text(std::string_view text, std::string_view key,
                                   const std::string& name, std::string& out);

// `text` as a quoted JSON string. Bytes that are not UTF-8 become U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace stretto
