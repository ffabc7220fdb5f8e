#include "reference/source.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/embedded.h"
#include "base/error.h"
#include "base/fs.h"

namespace stretto {

std::span<const EmbeddedFile> embedded_reference_files();

namespace {

constexpr std::array kFiles = {"mpt.csv", "mosaicgpt.csv", "bloom.csv", "fugaku.csv"};
constexpr int64_t kMaxBytes = 16 << 20;  // the real tables have 0.1 MB

bool holds_all_tables(const std::string& directory) {
  return std::all_of(kFiles.begin(), kFiles.end(), [&](const char* file) {
    return posix_fs().info(join_path(directory, file)).has_value();
  });
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

ReferenceTables read_reference(const std::string& directory) {
  ReferenceTables result{directory, {}};
  for (const char* file : kFiles) {
    result.tables.push_back(
        parse_csv(read_file(posix_fs(), join_path(directory, file), kMaxBytes), file));
  }
  return result;
}

ReferenceTables find_reference(const std::optional<std::string>& directory) {
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
