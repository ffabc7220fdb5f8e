// The commands of README's first pages work as they stand, one after the other, in a fresh clone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "support/shell.h"
#include "support/temp_dir.h"

namespace stretto::test {
namespace {

// The first block of commands below a heading of README.
std::string commands_below(const std::string& heading) {
  std::istringstream page(content_of(STRETTO_SOURCE_DIR "/README.md"));
  std::string script;
  bool below = false, block = false;
  for (std::string line; std::getline(page, line);) {
    if (line == heading) below = true;
    if (!below) continue;
    if (line == "```") {
      if (block) return script;
      block = true;
    } else if (block) {
      script += line + "\n";
    }
  }
  ADD_FAILURE() << "no commands below '" << heading << "'";
  return "";
}

// The same with few steps, because here only the words matter.
std::string shortened(std::string script, const std::string& from, const std::string& to) {
  const size_t at = script.find(from);
  EXPECT_NE(at, std::string::npos) << script;
  return at == std::string::npos ? script : script.replace(at, from.size(), to);
}

TEST(FirstSteps, WorkAsTheyStandInAFreshClone) {
  const TempDir clone;
  for (const char* name : {"configs", "docs", "LICENSE", "README.md", "ARCHITECTURE.md"}) {
    std::filesystem::create_symlink(fmt::format("{}/{}", STRETTO_SOURCE_DIR, name), clone / name);
  }
  std::filesystem::create_directory(clone / "build");
  std::filesystem::create_symlink(STRETTO_PROGRAM, clone / "build/stretto");
  const std::string script =
      shortened(commands_below("## First steps"), "train.steps=200", "train.steps=2") +
      shortened(commands_below("### With a tokenizer"), "text.yaml", "text.yaml train.steps=2");
  clone.write("script", script);
  const ShellAnswer answer = shell("cd " + clone.path() + " && bash -eu script 2>&1");
  EXPECT_EQ(answer.code, 0) << script << answer.out;
  for (const char* made : {"runs/first/report.html", "runs/first/metrics.jsonl",
                           "first-model/config.json", "my-model/tokenizer.json"}) {
    EXPECT_TRUE(std::filesystem::exists(clone / made)) << made << "\n" << answer.out;
  }
  EXPECT_NE(answer.out.find("tokens of corpus.txt a step"), std::string::npos) << answer.out;
}

}  // namespace
}  // namespace stretto::test
