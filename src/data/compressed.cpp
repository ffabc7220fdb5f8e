#include "data/compressed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace stretto {

void refuse_compressed(File& file, const char* otherwise) {
  constexpr struct {
    size_t at;
    std::string_view mark;
    const char *name, *command;
  } kFormats[] = {{0, "\x1f\x8b", "gzip", "gunzip -k"},
                  {0, "\x28\xb5\x2f\xfd", "zstd", "zstd -d"},
                  {0, "\xfd\x37zXZ", "xz", "xz -dk"},
                  {4, "1AY&SY", "bzip2", "bunzip2 -k"},  // behind "BZh" and a digit
                  {0, "\x04\x22\x4d\x18", "lz4", "lz4 -d"},
                  {0, "PK\x03\x04", "zip", "unzip"}};
  std::array<char, 10> bytes{};
  const std::string_view begin(bytes.data(), file.read_at(bytes.data(), bytes.size(), 0));
  for (const auto& format : kFormats) {
    if (!begin.substr(std::min(format.at, begin.size())).starts_with(format.mark)) continue;
    throw Error(ExitCode::bad_data,
                fmt::format("{} is compressed with {}", file.path(), format.name),
                fmt::format("unpack it first: {} {}{}", format.command, file.path(), otherwise));
  }
}

}  // namespace stretto
