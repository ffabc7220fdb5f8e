// Strict parser for comma-separated tables: what cannot be read exactly is refused, with its line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

struct CsvTable {
  std::string name;  // for messages: "mpt.csv"
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as long as the header
  std::vector<int64_t> lines;                  // the line on which each row begins

  std::optional<size_t> column(std::string_view name) const;
};

// Quoted fields may contain commas, line breaks and doubled quotes; CRLF and a byte order mark are
// accepted. Throws Error (bad_data) for: no header, an empty or repeated column name, a row of
// another length, a quote inside an unquoted field or left open, a field over 64 KiB, more than 256
// columns, a NUL byte, invalid UTF-8.
CsvTable parse_csv(std::string_view bytes, std::string_view name);

}  // namespace stretto
