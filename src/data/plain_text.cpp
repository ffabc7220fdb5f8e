#include "data/plain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace stretto {

void require_plain_text(File& file, const char* otherwise) {
  constexpr struct {
    size_t at;
    std::string_view mark;
    const char *name, *fix;
  } kOthers[] = {
      {0, "\x1f\x8b", "compressed with gzip", "unpack it first: gunzip -k"},
      {0, "\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it first: zstd -d"},
      {0, "\xfd\x37zXZ", "compressed with xz", "unpack it first: xz -dk"},
      // behind "BZh" and a digit
      {4, "1AY&SY", "compressed with bzip2", "unpack it first: bunzip2 -k"},
      {0, "\x04\x22\x4d\x18", "compressed with lz4", "unpack it first: lz4 -d"},
      {0, "PK\x03\x04", "compressed with zip", "unpack it first: unzip"},
      {0, "\xff\xfe", "UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 -o NAME.txt"},
      {0, "\xfe\xff", "UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 -o NAME.txt"}};
  std::array<char, 10> bytes{};
  const std::string_view begin(bytes.data(), file.read_at(bytes.data(), bytes.size(), 0));
  for (const auto& other : kOthers) {
    if (!begin.substr(std::min(other.at, begin.size())).starts_with(other.mark)) continue;
    throw Error(ExitCode::bad_data, fmt::format("{} is {}", file.path(), other.name),
                fmt::format("{} {}{}", other.fix, file.path(), otherwise));
  }
}

bool has_byte_order_mark(File& file) {
  std::array<char, kByteOrderMark.size()> bytes{};
  return std::string_view(bytes.data(), file.read_at(bytes.data(), bytes.size(), 0)) ==
         kByteOrderMark;
}

}  // namespace stretto
