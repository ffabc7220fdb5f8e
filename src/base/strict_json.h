// JSON from files that may come from strangers: no duplicate keys, no deep nesting, clear errors.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace stretto {

constexpr int kMaxJsonDepth = 64;

// Parses one JSON value that must be the whole text. Throws bad_data naming `name` and the place.
// Duplicate keys and nesting above kMaxJsonDepth are errors; memory stays proportional to the text.
nlohmann::json parse_json(std::string_view text, const std::string& name);

// The string at the top-level key `key` of one JSON object, checked as above, without building a
// tree: the reader of JSON Lines. False without such a key. `out` keeps its capacity between calls.
[[nodiscard]] bool parse_json_text(std::string_view text, std::string_view key,
                                   const std::string& name, std::string& out);

// `text` as a quoted JSON string. Bytes that are not UTF-8 become U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace stretto
