// Lines and tables fit the width they are given, and nothing is cut.
#include "base/wrap.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/text_table.h"

namespace stretto {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(Wrap, CountsColumnsNotBytes) {
  EXPECT_EQ(width_of(""), 0u);
  EXPECT_EQ(width_of("größe"), 5u);
  EXPECT_EQ(width_of("語x"), 3u);
  EXPECT_EQ(width_of("e\u0301\xff"), 2u);
  EXPECT_EQ(width_of("\x1b[31mred\x1b[0m"), 3u);
}

TEST(Wrap, BreaksBetweenWordsAndKeepsFiguresWithTheirUnits) {
  EXPECT_EQ(wrapped("a step takes 54.4 ms here", 17, 2), "a step takes\n  54.4 ms here");
  EXPECT_EQ(wrapped("it takes 62.8 % (3.41 to 5.69)", 13, 0), "it takes\n62.8 %\n(3.41 to\n5.69)");
  EXPECT_EQ(wrapped("see /a/path/longer/than/this now", 12, 2),
            "see\n  /a/path/longer/than/this\n  now");
  EXPECT_EQ(wrapped("", 12, 2), "");
}

TEST(Wrap, PagesGoOnBelowTheirLastColumn) {
  EXPECT_EQ(fit_page("  --flag  what it does at length\nshort\n", 30),
            "  --flag  what it does at\n          length\nshort\n");
  EXPECT_EQ(fit_page("best: one two three four five", 20), "best: one two three\n    four five");
  EXPECT_EQ(fit_page("one two three four five six", 20, 0), "one two three four\nfive six");
  EXPECT_EQ(fit_page("", 20), "");
}

TEST(Wrap, CommandsCanBeCopied) {
  EXPECT_EQ(wrapped_command("stretto train tiny a=1 b=2", 19, 2),
            "  stretto train \\\n      tiny a=1 \\\n      b=2");
  EXPECT_EQ(wrapped_command("stretto train", 20, 2), "  stretto train");
}

TEST(Wrap, NoWidthCutsAWord) {
  const std::string page =
      "name: a line of prose with 12.5 GiB and 62.8 % of something, and more words\n\n"
      "  --option TEXT               what it takes, at some length, so that it goes on\n"
      "                              text of a column alone, at some length as well, too\n"
      "    12.0 %  advice            which is long enough for widths below its own length\n";
  for (size_t width = 40; width < 130; ++width) {
    const std::string fitted = fit_page(page, width);
    EXPECT_EQ(words_of(fitted), words_of(page)) << width;
    for (const std::string& line : lines_of(fitted)) {
      EXPECT_LE(width_of(line), width) << line;
      EXPECT_FALSE(line.ends_with("12.5") || line.ends_with("62.8")) << line;
    }
  }
}

TextTable table_with(const std::string& name, const std::string& prose) {
  TextTable table({"run", ">seconds", ">tokens", ">memory", "state", "meaning"});
  table.add({name, "1.25", "123.4k", "12.34 GiB", "ok", prose});
  table.add({"b", "0.5", "7", "900 MiB", "failed", "short"});
  return table;
}

TEST(TextTable, FitsEveryWidthAndKeepsEveryCell) {
  const std::string prose = "what this run is about, told in so many words that no line holds it";
  for (const char* name :
       {"a", "größe-语言", "a-name-that-takes-more-than-half-of-eighty-columns"}) {
    const TextTable table = table_with(name, prose);
    for (const size_t width : {56, 60, 70, 80, 100, 120, 200}) {
      const std::string text = table.text(width, "  ");
      for (const std::string& line : lines_of(text)) {
        EXPECT_LE(width_of(line), width) << line;
        EXPECT_TRUE(line.empty() || line.starts_with("  ")) << line;
        EXPECT_FALSE(line.ends_with(' ')) << line;
      }
      for (const std::string cell : {"1.25", "123.4k", "12.34 GiB", "900 MiB", "failed", name}) {
        EXPECT_NE(text.find(cell), std::string::npos) << cell << " at " << width << "\n" << text;
      }
      EXPECT_NE(text.find("holds it"), std::string::npos) << text;
    }
  }
}

TEST(TextTable, ColumnsThatDoNotFitStandBelow) {
  TextTable table({"run", ">seconds", ">tokens"});
  table.add({"one", "1.25", "7"});
  table.add({"two", "0.5", "123.4k"});
  EXPECT_EQ(table.text(20), "run  seconds  tokens\none     1.25       7\ntwo      0.5  123.4k\n");
  EXPECT_EQ(table.text(19),
            "run  seconds\none     1.25\ntwo      0.5\n\nrun  tokens\none       7\ntwo  123.4k\n");
}

TEST(TextTable, ALongNameStandsAlone) {
  TextTable table({"run", ">seconds", ">tokens"});
  table.add({"a-long-name-here", "1.25", "7"});
  EXPECT_EQ(table.text(22), "run\n    seconds  tokens\na-long-name-here\n       1.25       7\n");
}

TEST(TextTable, SaysOnceWhatAllRowsShare) {
  TextTable table({"run", ">T", ">dp", ">s"});
  table.add({"one", "128", "1", "2"});
  EXPECT_TRUE(table.take_common().empty()) << "one row has everything in common with itself";
  table.add({"two", "128", "2", "2"});
  EXPECT_EQ(table.take_common(), (std::vector<std::string>{"T 128", "s 2"}));
  EXPECT_EQ(table.text(80), "run  dp\none   1\ntwo   2\n");
}

}  // namespace
}  // namespace stretto
