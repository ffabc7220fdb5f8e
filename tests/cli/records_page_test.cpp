// docs/records.md names each file, field and curve that runs write, and none that they do not
// write.
#include <gtest/gtest.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "support/event_reader.h"
#include "support/program.h"

namespace stretto::test {
namespace {

using nlohmann::json;
using Words = std::set<std::string>;

// What stands between backticks.
std::vector<std::string> code_in(const std::string& text) {
  std::vector<std::string> all;
  for (size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at)) {
    const size_t end = text.find('`', at + 1);
    if (end == std::string::npos) break;
    all.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return all;
}

// Each word of it.
Words words_in(const std::string& text) {
  Words words;
  for (const std::string& code : code_in(text)) {
    std::string word;
    for (const char c : code + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
        word += c;
      } else if (!word.empty()) {
        words.insert(std::exchange(word, ""));
      }
    }
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

std::string section(const std::string& page, const std::string& from, const std::string& to) {
  const size_t at = page.find("\n" + from + "\n");
  return page.substr(at, page.find("\n" + to + "\n") - at);
}

// The first column of its tables.
std::string described(const std::string& section) {
  std::istringstream lines(section);
  std::string cells;
  for (std::string line; std::getline(lines, line);) {
    const bool field = line.starts_with("| ") && !line.starts_with("| `{");
    if (field) cells += line.substr(0, line.find('|', 1)) + "\n";
  }
  return cells;
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
  const Words known = words_in(page);
  EXPECT_EQ(without(metrics, known), Words{});
  EXPECT_EQ(without(record, known), Words{});

  // Of GPUs, of rejected points, of two programs in turns, and of runs of half a second or more,
  // which these are on busy cores.
  record.erase("cores");
  EXPECT_EQ(
      without(words_in(described(section(page, "## metrics.jsonl", "## TensorBoard"))), metrics),
      (Words{"mfu", "gpu"}));
  EXPECT_EQ(without(words_in(described(
                        section(page, "## The record of a run", "## The directory of a sweep"))),
                    record),
            (Words{"asked_ranks", "cores", "gpu", "turns"}));
}

TEST(RecordsPage, NamesEveryFileAndCurveOfARun) {
  const TempDir dir{Where::memory};
  const std::string page = content_of(STRETTO_SOURCE_DIR "/docs/records.md"), run = dir / "run";
  const std::string text = STRETTO_SOURCE_DIR "/LICENSE", tokenizer = dir / "t.json";
  ASSERT_EQ(stretto_run({"tokenizer", "train", text, "--vocab", "300", "-o", tokenizer}).code, 0);
  ASSERT_EQ(
      stretto_run({"data", "prepare", text, "--tokenizer", tokenizer, "-o", dir / "tokens"}).code,
      0);
  const Answer answer = stretto_run(
      {"train", "-n", "2", "tiny-100k", "model.vocab=300", "seq_len=16", "micro_batch=1",
       "global_batch=4", "threads=1", "parallel.pp=2", "data.path=" + dir / "tokens.bin",
       "data.tokenizer=" + tokenizer, "train.steps=4", "train.eval_every=2", "trace=1",
       "log.tensorboard=true", "output=" + run});
  ASSERT_EQ(answer.code, 0) << answer.err;

  const std::string files = section(page, "## The directory of a run", "## The console");
  Words named, left;
  std::istringstream lines(files);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("DIR/")) named.insert(line.substr(4, line.find_first_of(" /*", 4) - 4));
  }
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    const std::string name = entry.path().filename();
    left.insert(name.starts_with("events.") ? "events.out.tfevents."
                : name.starts_with("run-")  ? "run-TIME.json"
                                            : name);
  }
  EXPECT_EQ(without(named, {"stop"}), left);

  Words curves;
  for (const auto& [tag, points] : curves_of(run)) curves.insert(tag);
  const auto tags = code_in(described(section(page, "## TensorBoard", "## The record of a run")));
  const Words of_gpus = {"mfu", "mem-reserved-bytes", "power/gpu", "sm-clock/gpu"};
  EXPECT_EQ(without(Words(tags.begin(), tags.end()), of_gpus), curves);
}

TEST(RecordsPage, HasEveryExitCode) {
  const std::string page = content_of(STRETTO_SOURCE_DIR "/docs/records.md");
  std::istringstream header(content_of(STRETTO_SOURCE_DIR "/src/base/error.h"));
  std::set<int> codes, described_codes;
  bool inside = false;
  for (std::string line; std::getline(header, line);) {
    if (line.starts_with("enum class ExitCode")) inside = true;
    if (line == "};") inside = false;
    if (inside && line.find(" = ") != std::string::npos) {
      codes.insert(std::stoi(line.substr(line.find(" = ") + 3)));
    }
  }
  std::istringstream cells(described(page.substr(page.find("\n## Exit codes\n"))));
  for (std::string cell; std::getline(cells, cell);) {
    for (char& c : cell) c = std::isdigit(static_cast<unsigned char>(c)) != 0 ? c : ' ';
    std::istringstream numbers(cell);
    for (int code = 0; numbers >> code;) described_codes.insert(code);
  }
  for (const int of_a_launcher : {134, 137, 139, 143}) described_codes.erase(of_a_launcher);
  EXPECT_EQ(described_codes, codes);
  EXPECT_GE(codes.size(), 15u);
}

}  // namespace
}  // namespace stretto::test
