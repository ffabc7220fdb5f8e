// The runs of a report as plain HTML, for viewers that run no scripts: mail, wikis that sandbox
// pages.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace stretto {

// `data`: the JSON that the page's script reads. Every text in it is escaped. The script replaces
// this table by its own.
std::string static_table(const nlohmann::json& data);

}  // namespace stretto
