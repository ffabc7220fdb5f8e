// The runs of a report as plain HTML, for readers that run no scripts: mail, wikis in a sandbox.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace stretto {

// `data`: what the page's script reads. Every text in it is escaped. The script puts its own table
// in the place of this one.
std::string static_table(const nlohmann::json& data);

}  // namespace stretto
