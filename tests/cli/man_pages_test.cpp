// The manual: a page for each verb, that roff reads as it was meant.
#include "cli/man_pages.h"

#include <filesystem>
#include <set>
#include <sstream>

#include "config/schema.h"
#include "support/run_verb.h"
#include "support/shell.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

class ManPages : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(run_verb({"__share", dir_.path()}).code, 0); }
  std::string page(const std::string& name) const {
    return content_of(dir_ / fmt::format("man/man{}/{}", name.back(), name));
  }
  TempDir dir_{Where::memory};
};

TEST_F(ManPages, EveryVerbHasOneThatNamesItsOptionsAndExamples) {
  std::istringstream verbs(run_verb({"__complete", ""}).out);
  std::string verb;
  std::getline(verbs, verb);
  size_t count = 0;
  while (std::getline(verbs, verb)) {
    verb = verb.substr(0, verb.find('\t'));
    const std::string text = page("stretto-" + verb + ".1");
    EXPECT_NE(text.find(".SH SYNOPSIS\n\\fBstretto " + verb), std::string::npos) << verb;
    EXPECT_NE(text.find(".SH EXAMPLES\n.TP\n"), std::string::npos) << verb;
    EXPECT_NE(page("stretto.1").find("\\fBstretto\\-" + verb + "\\fR(1)"), std::string::npos);
    ++count;
  }
  EXPECT_GT(count, 20u);
  EXPECT_NE(page("stretto-sweep.1")
                .find(".TP\n\\fB\\-m\\fR, \\fB\\-\\-models\\fR \\fITEXT\\fR...\n"
                      "Models of the registry\n"),
            std::string::npos);
  EXPECT_NE(page("stretto-plan.1").find(".SS stretto plan exam\n"), std::string::npos);
}

TEST_F(ManPages, EveryKeyStandsInStrettoConfig5) {
  const std::string text = page("stretto-config.5");
  for (const Key& key : config_keys()) {
    EXPECT_NE(text.find(".TP\n\\fB" + key.name + "\\fR\n"), std::string::npos) << key.name;
  }
}

TEST(ManText, MeansNothingToRoff) {
  const cli::Outline verb{
      "x", "Does \\n\n\n'Tis `code-like`.\n\nExamples:\n  stretto x   .a file\n", {}, {}};
  const std::vector<cli::ManPage> pages = cli::man_pages({"stretto", "Text.\n", {}, {verb}});
  ASSERT_EQ(pages.back().name, "stretto-x.1");
  const std::string& text = pages.back().text;
  EXPECT_NE(text.find("\nstretto\\-x \\- Does \\en\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n\\&'Tis \\fBcode\\-like\\fR.\n"), std::string::npos) << text;
  EXPECT_NE(text.find(".TP\n\\fBstretto x\\fR\n\\&.a file\n"), std::string::npos) << text;
}

// What no text may look like: a line that begins with a dot.
TEST_F(ManPages, LinesAreTextOrKnownRequests) {
  const std::set<std::string> known = {".TH", ".SH", ".SS", ".TP", ".PP", ".br", ".\\\""};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "man")) {
    if (!entry.is_regular_file()) continue;
    std::istringstream lines(content_of(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_NE(line, "") << entry.path();
      const bool request = line[0] == '.';
      EXPECT_TRUE(!request || known.count(line.substr(0, line.find(' '))) == 1) << line;
      EXPECT_NE(line[0], '\'') << line;
    }
  }
}

TEST_F(ManPages, AManualCheckerHasNothingToSay) {
  if (!test::has_command("mandoc")) GTEST_SKIP() << "apt-get install mandoc";
  // Outside a checkout there is no date.
  const test::ShellAnswer answer = test::shell("mandoc -Tlint -Wwarning " + dir_.path() +
                                               "/man/man?/* 2>&1 | grep -v 'missing date'");
  EXPECT_EQ(answer.out, "");
}

}  // namespace
}  // namespace stretto
