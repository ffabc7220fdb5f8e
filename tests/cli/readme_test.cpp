// What README.md shows of verbs that measure nothing is what the program prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "support/run_verb.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Shown {
  std::vector<std::string> words;  // of the command, "stretto" first
  std::vector<std::string> lines;  // what it is said to print; "..." stands for any number of lines
};

std::vector<Shown> commands_in(const std::string& page) {
  std::vector<Shown> all;
  bool block = false, command = false;
  for (const std::string& line : lines_of(page)) {
    if (line.starts_with("```")) {
      block = !block;
      command = false;
    } else if (block && line.starts_with("$ ")) {
      std::istringstream words(line.substr(2));
      all.emplace_back();
      for (std::string word; words >> word;) all.back().words.push_back(word);
      command = true;
    } else if (command) {
      all.back().lines.push_back(line);
    }
  }
  return all;
}

// The first line of `shown` that `printed` does not have in its place; empty: it has all.
std::string first_stale(const std::vector<std::string>& shown, const std::string& printed) {
  const std::vector<std::string> lines = lines_of(printed);
  auto at = lines.begin();
  bool elided = false;
  for (const std::string& line : shown) {
    if (line == "...") {
      elided = true;
      continue;
    }
    if (elided) at = std::find(at, lines.end(), line);
    if (at == lines.end() || *at != line) return line.empty() ? "an empty line" : line;
    ++at;
    elided = false;
  }
  return elided || at == lines.end() ? "" : "nothing, where the program prints: " + *at;
}

TEST(Readme, ShowsWhatTheProgramPrints) {
  const std::set<std::string> measures_nothing = {"config", "flops", "plan", "reference"};
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(STRETTO_SOURCE_DIR);
  std::set<std::string> seen;
  int code = 0;
  for (const Shown& shown : commands_in(content_of("README.md"))) {
    if (shown.words == std::vector<std::string>{"echo", "$?"}) {
      EXPECT_EQ(shown.lines.at(0), std::to_string(code));
    }
    if (shown.words.size() < 2 || measures_nothing.count(shown.words[1]) == 0) continue;
    const VerbAnswer answer = run_verb({shown.words.begin() + 1, shown.words.end()});
    EXPECT_EQ(first_stale(shown.lines, answer.out + answer.err), "") << answer.out << answer.err;
    seen.insert(shown.words[1]);
    code = answer.code;
  }
  EXPECT_EQ(seen, measures_nothing);
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace stretto
