#include "data/plain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/fs.h"

namespace stretto {

void require_plain_text(File& file, const char* otherwise) {
  using std::string_view_literals::operator""sv;
  constexpr struct {
    size_t at;
    std::string_view mark;
    const char *name, *fix;  // {}: the file
  } kOthers[] = {
      {0, "\x1f\x8b", "compressed with gzip", "unpack it first: gunzip -k {}"},
      {0, "\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it first: zstd -d {}"},
      {0, "\xfd\x37zXZ", "compressed with xz", "unpack it first: xz -dk {}"},
      // behind "BZh" and a digit
      {4, "1AY&SY", "compressed with bzip2", "unpack it first: bunzip2 -k {}"},
      {0, "\x04\x22\x4d\x18", "compressed with lz4", "unpack it first: lz4 -d {}"},
      {0, "PK\x03\x04", "compressed with zip", "unpack it first: unzip {}"},
      {0, "\xff\xfe\0\0"sv, "UTF-32", "convert it first: iconv -f UTF-32 -t UTF-8 {} > NAME.txt"},
      {0, "\0\0\xfe\xff"sv, "UTF-32", "convert it first: iconv -f UTF-32 -t UTF-8 {} > NAME.txt"},
      {0, "\xff\xfe", "UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 {} > NAME.txt"},
      {0, "\xfe\xff", "UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 {} > NAME.txt"},
      {0, "%PDF-", "a PDF", "take its text first: pdftotext {} NAME.txt"},
      // and the first field, in Thrift, of a page's header or of a table without pages
      {0, "PAR1\x15", "a Parquet table",
       "make JSON Lines of it first: python3 -c \"import pandas; pandas.read_parquet('{}')"
       ".to_json('NAME.jsonl', orient='records', lines=True)\""},
      {0, "MMIDIDX", "an index of Megatron's tokens", "use the pair as it is: data.path={}"},
      {0, "\x88\xd8\x34\x01\x01\0\0\0"sv, "a token file of llm.c", "use it as it is: data.path={}"},
      {0, "\xa1\xd9\x34\x01\x07\0\0\0"sv, "a token file of llm.c", "use it as it is: data.path={}"},
      {0, "\x93NUMPY", "an array of NumPy",
       "if it holds tokens, write them without its header: python3 -c \"import numpy; "
       "a = numpy.load('{}'); assert a.max() < 65536; a.astype('uint16').tofile('NAME.u16')\""}};
  std::array<char, 10> bytes{};
  const std::string_view begin(bytes.data(), file.read_at(bytes.data(), bytes.size(), 0));
  for (const auto& other : kOthers) {
    if (!begin.substr(std::min(other.at, begin.size())).starts_with(other.mark)) continue;
    throw Error(ExitCode::bad_data, fmt::format("{} is {}", file.path(), other.name),
                fmt::format(fmt::runtime(other.fix), file.path()) + otherwise);
  }
  const std::string& path = file.path();
  const std::string index = path.ends_with(".bin") ? path.substr(0, path.size() - 3) + "idx" : "";
  if (!index.empty() && posix_fs().info(index)) {
    throw Error(ExitCode::bad_data,
                fmt::format("{} holds the tokens of Megatron's index {}", path, index),
                fmt::format("use the pair as it is: data.path={}", path));
  }
}

int64_t text_begin(File& file) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::array<char, kByteOrderMark.size()> bytes{};
  const std::string_view begin(bytes.data(), file.read_at(bytes.data(), bytes.size(), 0));
  return begin == kByteOrderMark ? std::ssize(kByteOrderMark) : 0;
}

}  // namespace stretto
