// docs/records.md names each field of what runs write, and no field that they do not write.
#include <gtest/gtest.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/program.h"

namespace stretto::test {
namespace {

using nlohmann::json;
using Words = std::set<std::string>;

// The words of all that stands between backticks.
Words code_in(const std::string& text) {
  Words words;
  for (size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at + 1)) {
    const size_t end = text.find('`', at + 1);
    if (end == std::string::npos) break;
    std::string word;
    for (; ++at <= end;) {
      const auto c = static_cast<unsigned char>(text[at]);
      if (std::isalnum(c) != 0 || c == '_') {
        word += text[at];
      } else if (!word.empty()) {
        words.insert(std::exchange(word, ""));
      }
    }
    at = end;
  }
  return words;
}

// Names of fields; what some of them hold by name (of an operator, an axis, a key) is data.
void fields_of(const json& value, Words& fields) {
  static const Words holds_names = {
      "config", "machine", "build", "operators", "comm_bytes", "comm_bytes_by_call", "conventions"};
  if (value.is_array() && !value.empty()) fields_of(value[0], fields);
  if (!value.is_object()) return;
  for (const auto& [name, inner] : value.items()) {
    fields.insert(name);
    if (holds_names.count(name) == 0) {
      fields_of(inner, fields);
    } else if (name == "conventions" || (name == "operators" && inner.begin()->is_object())) {
      fields_of(*inner.begin(), fields);
    }
  }
}

// The first column of the tables between two headings.
Words fields_described(const std::string& page, const std::string& from, const std::string& to) {
  const size_t at = page.find("\n" + from + "\n");
  std::istringstream lines(page.substr(at, page.find("\n" + to + "\n") - at));
  Words fields;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `") && !line.starts_with("| `{")) {
      fields.merge(code_in(line.substr(0, line.find('|', 1))));
    }
  }
  return fields;
}

Words without(Words all, const Words& others) {
  for (const std::string& word : others) all.erase(word);
  return all;
}

TEST(RecordsPage, NamesEveryFieldAndNoOther) {
  const TempDir dir{Where::memory};
  const std::string page = content_of(STRETTO_SOURCE_DIR "/docs/records.md"), run = dir / "run";
  ASSERT_NE(page, "");
  const std::vector<std::string> settings = {"-n",
                                             "2",
                                             "tiny-100k",
                                             "seq_len=16",
                                             "micro_batch=1",
                                             "global_batch=4",
                                             "threads=1",
                                             "parallel.pp=2"};
  const auto stretto = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), settings.begin(), settings.end());
    words.insert(words.end(), more.begin(), more.end());
    const Answer answer = stretto_run(words);
    EXPECT_EQ(answer.code, 0) << answer.err;
  };
  stretto({"train"}, {"output=" + run, "train.steps=12", "train.eval_every=6",
                      "data.path=" STRETTO_SOURCE_DIR "/LICENSE"});
  const std::string machine = dir.write(
      "m.json",
      R"({"cpu": {"usable": 4}, "memory": {"total_bytes": 8e9}, "measured": {"fma_flops": 4e11,
          "gemm_flops": 2e11, "triad_bytes_per_second": 2e10, "message_seconds": 2e-6,
          "message_bytes_per_second": 1e10}})");
  stretto({"bench"}, {"--machine", machine, "--seconds", "0", "-o", dir / "bench.json"});

  Words metrics, record;
  std::istringstream lines(content_of(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) fields_of(json::parse(line), metrics);
  fields_of(json::parse(content_of(dir / "bench.json")), record);
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("run-")) fields_of(json::parse(content_of(entry.path())), record);
  }
  const Words known = code_in(page);
  EXPECT_EQ(without(metrics, known), Words{});
  EXPECT_EQ(without(record, known), Words{});

  // Of GPUs, of rejected points, of two programs in turns, and of runs of half a second or more.
  EXPECT_EQ(without(fields_described(page, "## metrics.jsonl", "## TensorBoard"), metrics),
            (Words{"mfu", "gpu"}));
  EXPECT_EQ(without(fields_described(page, "## The record of a run", "## The directory of a sweep"),
                    record),
            (Words{"asked_ranks", "cores", "gpu", "turns"}));
}

}  // namespace
}  // namespace stretto::test
