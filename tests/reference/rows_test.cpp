// Typed rows: the built-in tables, bad cells, missing columns.
#include "reference/rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reference/source.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

const ReferenceRow& row_of(const std::vector<ReferenceRow>& rows, const std::string& id) {
  return *std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.id == id; });
}

CsvTable embedded(size_t index) { return embedded_reference().tables.at(index); }

TEST(ReferenceRows, TheBuiltInTables) {
  const auto rows = load_reference();
  EXPECT_EQ(rows.size(), 661u);
  const ReferenceRow& mpt = row_of(rows, "mpt-001");
  EXPECT_EQ(mpt.params, 64862437376);
  EXPECT_EQ(mpt.shape().positions, 2048);
  EXPECT_EQ(mpt.devices(), 64);
  EXPECT_EQ(mpt.checkpointing(), Checkpointing::full);
  EXPECT_DOUBLE_EQ(mpt.mfu->value, 0.4257);
  EXPECT_DOUBLE_EQ(mpt.mfu->half, 0.00005);
  const ReferenceRow& node = row_of(rows, "fugaku30b-012");
  EXPECT_EQ(node.devices(), 6144);
  EXPECT_FALSE(node.vocab.has_value());
  EXPECT_EQ(with_suggested_fix(node).dp, 32);
}

TEST(ReferenceRows, PublishedNumbersCarryTheirDigits) {
  EXPECT_DOUBLE_EQ(parse_published("12", "x").half, 0.5);
  EXPECT_DOUBLE_EQ(parse_published("0.50", "x").half, 0.005);
  for (const char* bad : {"", "x", "1e5", "1.5s", "nan", "inf", "0x10", "1,5", " 1", "+1", "--1"}) {
    EXPECT_ERROR(parse_published(bad, "t.csv:3: mfu"), ExitCode::bad_data, "t.csv:3: mfu");
  }
}

TEST(ReferenceRows, BadCellsAreNamed) {
  CsvTable table = embedded(0);
  const size_t layers = *table.column("layers"), mfu = *table.column("mfu");
  table.rows[4][layers] = "12.5";
  EXPECT_ERROR(reference_rows(table), ExitCode::bad_data, "mpt.csv:6: layers: '12.5'");
  table.rows[4][layers] = "99999999999999999999";
  EXPECT_ERROR(reference_rows(table), ExitCode::bad_data, "layers");
  table.rows[4][layers] = "100000";
  EXPECT_NO_THROW(reference_rows(table));
  for (const char* many : {"100001", "900000000"}) {
    table.rows[4][layers] = many;
    EXPECT_ERROR(reference_rows(table), ExitCode::bad_data, "a number up to 100,000");
  }
  table.rows[4][layers] = "-3";
  EXPECT_ERROR(reference_rows(table), ExitCode::bad_data, "layers: '-3'");
  table.rows[4][layers] = "48";
  table.rows[7][mfu] = "0.43%";
  EXPECT_ERROR(reference_rows(table), ExitCode::bad_data, "mpt.csv:9: mfu: '0.43%'");
}

TEST(ReferenceRows, MissingColumnsAndRepeatedIdsAreNamed) {
  CsvTable table = embedded(0);
  table.header[*table.column("mfu")] = "muf";
  EXPECT_ERROR(reference_rows(table), ExitCode::bad_data, "mpt.csv: no column 'mfu'");
  table = embedded(2);
  table.rows[1][*table.column("id")] = "bloom-001";
  EXPECT_ERROR(reference_rows(table), ExitCode::bad_data, "'bloom-001' is blank or used twice");
}

TEST(ReferenceRows, BadFixesAreNamed) {
  ReferenceRow row = load_reference().front();
  for (const char* fix : {"dp", "no_such=3", "dp=four", "dp=4;;"}) {
    row.suggested_fix = fix;
    EXPECT_ERROR(with_suggested_fix(row), ExitCode::bad_data, "suggested_fix");
  }
}

TEST(ReferenceRows, MissingDirectoriesAndFiles) {
  const TempDir dir;
  EXPECT_ERROR(read_reference(dir / "nowhere"), ExitCode::no_input, "mpt.csv");
  EXPECT_ERROR(read_reference(dir.path()), ExitCode::no_input, "mpt.csv");
  dir.write("mpt.csv", "");
  EXPECT_ERROR(read_reference(dir.path()), ExitCode::bad_data, "empty");
}

TEST(ReferenceRows, BuiltInCopyEqualsTheRepository) {
  const auto built_in = embedded_reference(),
             files = read_reference(STRETTO_SOURCE_DIR "/reference");
  for (size_t i = 0; i < built_in.tables.size(); ++i) {
    EXPECT_EQ(built_in.tables[i].rows, files.tables[i].rows) << built_in.tables[i].name;
  }
}

}  // namespace
}  // namespace stretto
