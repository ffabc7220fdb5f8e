#include "reference/source.h"

#include <array>
#include <fstream>
#include <iterator>

#include "base/embedded.h"
#include "base/error.h"

namespace stretto {

std::span<const EmbeddedFile> embedded_reference_files();

namespace {

namespace fs = std::filesystem;

constexpr std::array kFiles = {"mpt.csv", "mosaicgpt.csv", "bloom.csv", "fugaku.csv"};
constexpr uintmax_t kMaxBytes = 16 << 20;  // the real ones have 0.1 MB

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    throw Error(ExitCode::no_input, fmt::format("no table file {}", path.string()),
                "a reference directory holds mpt.csv, mosaicgpt.csv, bloom.csv and fugaku.csv");
  }
  const uintmax_t size = fs::file_size(path, error);
  if (error || size > kMaxBytes) {
    throw Error(ExitCode::bad_data,
                fmt::format("{} is too large for a result table", path.string()),
                "name the directory of the published tables");
  }
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.good() && !in.eof()) {
    throw Error(ExitCode::io_error, fmt::format("cannot read {}", path.string()),
                "check its permissions");
  }
  return bytes;
}

bool holds_all_tables(const fs::path& directory) {
  std::error_code error;
  for (const char* file : kFiles) {
    if (!fs::is_regular_file(directory / file, error)) return false;
  }
  return true;
}

}  // namespace

ReferenceTables embedded_reference() {
  ReferenceTables result{"built in", {}};
  for (const char* file : kFiles) {
    for (const EmbeddedFile& embedded : embedded_reference_files()) {
      if (embedded.name == file) result.tables.push_back(parse_csv(embedded.content, file));
    }
  }
  STRETTO_CHECK(result.tables.size() == kFiles.size());
  return result;
}

ReferenceTables read_reference(const fs::path& directory) {
  ReferenceTables result{directory.string(), {}};
  for (const char* file : kFiles) {
    result.tables.push_back(parse_csv(read_file(directory / file), file));
  }
  return result;
}

ReferenceTables find_reference(const std::optional<fs::path>& directory) {
  if (directory) return read_reference(*directory);
  if (holds_all_tables("reference")) return read_reference("reference");
  return embedded_reference();
}

std::vector<ReferenceRow> load_reference(const ReferenceTables& tables) {
  std::vector<ReferenceRow> all;
  for (const CsvTable& table : tables.tables) {
    auto rows = reference_rows(table);
    all.insert(all.end(), std::make_move_iterator(rows.begin()),
               std::make_move_iterator(rows.end()));
  }
  return all;
}

std::vector<ReferenceRow> load_reference() { return load_reference(embedded_reference()); }

}  // namespace stretto
