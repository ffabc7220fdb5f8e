#include "data/compressed.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/error.h"

namespace stretto {

void refuse_compressed(File& file, const char* otherwise) {
  constexpr struct {
    std::string_view begin;
    const char *name, *command;
  } kFormats[] = {{"\x1f\x8b", "gzip", "gunzip -k"}, {"\x28\xb5\x2f\xfd", "zstd", "zstd -d"}};
  std::array<char, 4> bytes{};
  const std::string_view begin(bytes.data(), file.read_at(bytes.data(), bytes.size(), 0));
  for (const auto& format : kFormats) {
    if (!begin.starts_with(format.begin)) continue;
    throw Error(ExitCode::bad_data,
                fmt::format("{} is compressed with {}", file.path(), format.name),
                fmt::format("unpack it first: {} {}{}", format.command, file.path(), otherwise));
  }
}

}  // namespace stretto
