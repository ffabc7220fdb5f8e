// Files compiled into the program by stretto_embed (cmake/embed.cmake), so that one binary carries
// its presets, tables and page assets.
#pragma once

#include <span>
#include <string_view>

namespace stretto {

struct EmbeddedFile {
  std::string_view name;
  std::string_view content;
};

}  // namespace stretto
