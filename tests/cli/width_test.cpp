// Pages fit the width they are printed at, and no word or figure in them is cut.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "base/wrap.h"
#include "support/run_verb.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

constexpr int kWidths[] = {60, 80, 120, 200};
constexpr int kUnlimited = 5000;

std::set<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::set<std::string> words{std::istream_iterator<std::string>(in), {}};
  words.erase("\\");  // at the end of a command's line
  return words;
}

// What a run of the program took is another time in the next.
std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex("looked at in [^:]*"), "looked at");
}

// Longer than the width may only be a word: a path, a name.
void expect_fits(const std::string& page, size_t width, const std::string& what) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (width_of(line) <= width) continue;
    EXPECT_EQ(words_of(line).size(), 1u) << what << " at " << width << ":\n" << line;
  }
}

void expect_pages(const std::vector<std::string>& words) {
  std::string what;
  for (const std::string& word : words) what += word + " ";
  const std::string whole = without_times(run_verb(words, kUnlimited).out);
  ASSERT_NE(whole, "") << what;
  for (const int width : kWidths) {
    const VerbAnswer answer = run_verb(words, width);
    EXPECT_EQ(answer.code, 0) << what << answer.err;
    expect_fits(answer.out, static_cast<size_t>(width), what);
    EXPECT_EQ(words_of(without_times(answer.out)), words_of(whole)) << what << "at " << width;
  }
  EXPECT_EQ(without_times(run_verb(words).out), without_times(run_verb(words, 80).out))
      << "80 where nothing says a width";
}

std::vector<std::string> verbs_in(const std::string& help) {
  std::vector<std::string> verbs;
  const size_t list = help.find("Subcommands:\n");
  std::istringstream lines(list == std::string::npos ? "" : help.substr(list));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) verbs.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return verbs;
}

void expect_help(const std::vector<std::string>& verb) {
  std::vector<std::string> words = verb;
  words.push_back("--help");
  expect_pages(words);
  for (const std::string& below : verbs_in(run_verb(words, kUnlimited).out)) {
    std::vector<std::string> longer = verb;
    longer.push_back(below);
    expect_help(longer);
  }
}

std::vector<std::string> with_long_name(std::vector<std::string> words) {
  for (const char* word :
       {"model.name=a-model-with-a-name-of-more-letters-than-others-have", "model.layers=4",
        "model.hidden=256", "model.heads=4", "model.vocab=512", "model.positions=64"}) {
    words.emplace_back(word);
  }
  return words;
}

TEST(Width, HelpFits) { expect_help({}); }

TEST(Width, KeysFit) { expect_pages({"config", "keys"}); }

TEST(Width, CostsFit) {
  expect_pages({"flops", "mpt-125m"});
  expect_pages({"flops", "bloom-176b", "parallel.tp=4", "parallel.pp=14", "global_batch=2048",
                "activation_checkpointing=full", "device=cuda", "activation_offload=true"});
  expect_pages(with_long_name({"flops"}));
}

TEST(Width, PlansFit) {
  expect_pages({"plan", "mpt-7b", "--cluster", "h100", "--gpus", "64", "--tp", "1"});
  expect_pages({"plan", "bloom-176b", "--gpus", "384", "--tp", "4", "--pp", "12", "--global-batch",
                "2304", "--recompute", "full", "--explain"});
  expect_pages(with_long_name({"plan", "--gpus", "8", "--tp", "2", "--pp", "2", "--rejected"}));
  expect_pages({"plan", "mpt-7b", "--scale", "--tp", "8", "--pp", "1", "--micro-batch", "1",
                "--tokens", "2T", "--price", "2.5"});
  expect_pages({"plan", "clusters", "h100"});
}

TEST(Width, SweepsFit) {
  const TempDir dir;
  const std::string spec =
      dir.write("spec.yaml",
                "base: tiny\npoints:\n  - {name: a}\n"
                "  - {name: a-point-with-a-name-that-takes-more-than-half-of-eighty-columns, "
                "parallel.tp: 2}\n"
                "  - {name: none, parallel.tp: 3}\n");
  expect_pages({"sweep", spec, "--launcher", "slurm", "--out", dir / "out"});
  expect_pages({"sweep", "-m", "tiny", "mpt-125m", "--tp", "1", "2", "--zero", "0", "1", "-g", "2",
                "4", "--launcher", "slurm", "--out", dir / "out"});
}

}  // namespace
}  // namespace stretto
