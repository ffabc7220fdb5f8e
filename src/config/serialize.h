// A Config as text: YAML to read and edit, JSON for records, and the JSON Schema of both.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/config.h"
#include "config/reader.h"

namespace stretto {

// Every key, fully resolved. load_config_text(to_yaml(c)) and config_from_json(to_json(c)) give
// back the same values.
std::string to_yaml(const Config& config);
std::string to_yaml(const ResolvedConfig& resolved);  // with the origin of each value as a comment
// What `train` must know about a model: its shape and the length of its sequences.
std::string model_yaml(const Config& config);

nlohmann::json to_json(const Config& config);
Config config_from_json(const nlohmann::json& document);  // throws Error (bad_config)

nlohmann::json origins_json(const ResolvedConfig& resolved);  // {"parallel.tp": "my.yaml:14:7"}

nlohmann::json config_schema();  // JSON Schema, draft 2020-12

}  // namespace stretto
