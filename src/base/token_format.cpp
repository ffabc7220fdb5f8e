#include "base/token_format.h"

#include <fmt/format.h>

#include <iterator>

#include "base/error.h"

namespace stretto {
namespace {

constexpr const char* kNames[] = {"auto", "megatron", "llmc", "u16", "bytes"};

}  // namespace

const char* name_of(TokenFormat format) { return kNames[static_cast<int>(format)]; }

TokenFormat parse_token_format(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<TokenFormat>(i);
  }
  throw Error(ExitCode::bad_config, fmt::format("unknown token file format \"{}\"", name),
              fmt::format("use one of: {}", fmt::join(kNames, ", ")));
}

}  // namespace stretto
