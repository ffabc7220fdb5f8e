// The CSV reader: what it accepts, and each thing it refuses with the place.
#include "reference/csv.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "support/expect_error.h"

namespace stretto {
namespace {

CsvTable parse(std::string_view bytes) { return parse_csv(bytes, "t.csv"); }

TEST(Csv, QuotesCommasBreaksAndDoubledQuotes) {
  const CsvTable table = parse("a,b\n\"x, y\",\"say \"\"hi\"\"\"\n\"two\nlines\",\n");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0][0], "x, y");
  EXPECT_EQ(table.rows[0][1], "say \"hi\"");
  EXPECT_EQ(table.rows[1][0], "two\nlines");
  EXPECT_EQ(table.rows[1][1], "");
  EXPECT_EQ(table.lines[1], 3);
}

TEST(Csv, CrLfByteOrderMarkBlankLinesAndNoLastNewline) {
  const CsvTable table = parse(
      "\xef\xbb\xbf"
      "a,b\r\n1,2\r\n\r\n3,4");
  EXPECT_EQ(table.header[0], "a");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1][1], "4");
  EXPECT_EQ(table.lines[1], 4);
  EXPECT_EQ(table.column("b"), 1u);
  EXPECT_FALSE(table.column("c").has_value());
}

TEST(Csv, RefusesWithThePlace) {
  EXPECT_ERROR(parse(""), ExitCode::bad_data, "t.csv:1: the file is empty");
  EXPECT_ERROR(parse("a,b\n1\n"), ExitCode::bad_data, "t.csv:2: 1 fields, but the header names 2");
  EXPECT_ERROR(parse("a,b\n1,2\n1,2,3\n"), ExitCode::bad_data, "t.csv:3:");
  EXPECT_ERROR(parse("a,a\n"), ExitCode::bad_data, "two columns are called 'a'");
  EXPECT_ERROR(parse("a,\n"), ExitCode::bad_data, "a column without a name");
  EXPECT_ERROR(parse("a,b\n1,\"open\nx,y\n"), ExitCode::bad_data, "t.csv:2: a quote is opened");
  EXPECT_ERROR(parse("a\nx\"y\n"), ExitCode::bad_data, "a quote inside a field");
  EXPECT_ERROR(parse("a\n\"x\"y\n"), ExitCode::bad_data, "text after a closing quote");
}

TEST(Csv, RefusesBinaryAndWrongEncodings) {
  EXPECT_ERROR(parse(std::string_view("a\n\0\n", 4)), ExitCode::bad_data, "t.csv:2: not UTF-8");
  for (const char* bytes : {"\xff\xfe", "a\n\xc3(", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                            "\xe2\x82", "\xf0\x80\x80\x80"}) {
    EXPECT_ERROR(parse(bytes), ExitCode::bad_data, "not UTF-8");
  }
  EXPECT_EQ(parse("a\n\xe5\xae\x9f\xe8\xa1\x8c\n").rows.size(), 1u);
}

TEST(Csv, RefusesHugeLinesAndTooManyColumns) {
  const std::string huge = "a\n" + std::string(1 << 20, 'x') + "\n";
  EXPECT_ERROR(parse(huge), ExitCode::bad_data, "t.csv:2: a field is longer than 64 KiB");
  EXPECT_ERROR(parse("a\n\"" + std::string(1 << 20, 'x')), ExitCode::bad_data, "64 KiB");
  const std::string most = "a\n" + std::string(64 << 10, 'x');
  EXPECT_EQ(parse(most + "\n").rows[0][0].size(), size_t{64} << 10);
  EXPECT_ERROR(parse(most + "x\n"), ExitCode::bad_data, "t.csv:2: a field is longer than 64 KiB");
  EXPECT_ERROR(parse(std::string(300, ',')), ExitCode::bad_data, "more than 256 columns");
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

TEST(Csv, WhatIsWrittenComesBack) {
  EXPECT_TRUE(rc::check([] {
    const auto letter = rc::gen::element('a', ',', '"', '\n', '\r', ' ', '7');
    const auto cells =
        *rc::gen::container<std::vector<std::string>>(5, rc::gen::container<std::string>(letter));
    std::string bytes = "a,b,c,d,e\n";
    for (size_t i = 0; i < 5; ++i) bytes += quoted(cells[i]) + (i < 4 ? "," : "\n");
    RC_ASSERT(parse(bytes).rows.at(0) == cells);
  }));
}

}  // namespace
}  // namespace stretto
