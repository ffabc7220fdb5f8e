// bench: ranks as threads, where the record goes, and what stands on the page.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/fs.h"
#include "base/units.h"
#include "support/program.h"

namespace stretto::test {
namespace {

using nlohmann::json;

// A short run on a machine of four cores that is known, so that nothing is measured for it.
std::vector<std::string> short_run(const TempDir& dir, std::vector<std::string> more,
                                   const char* flops = "4e11") {
  const std::string machine = fmt::format(
      R"({{"cpu": {{"model": "Paper CPU", "usable": 4}}, "memory": {{"total_bytes": 8e9}},
          "measured": {{"fma_flops": {}, "gemm_flops": 2e11, "triad_bytes_per_second": 2e10}}}})",
      flops);
  std::vector<std::string> words = {"bench",
                                    "tiny-100k",
                                    "seq_len=16",
                                    "micro_batch=1",
                                    "threads=1",
                                    "--machine",
                                    dir.write("m.json", machine),
                                    "--steps",
                                    "2",
                                    "--warmup",
                                    "1",
                                    "--seconds",
                                    "0",
                                    "global_batch=4"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json record_in(const std::string& path) { return json::parse(content_of(path)); }

constexpr int kWide = 200;  // no line is wrapped

// What the page says on the line of this title.
std::string line_of(const std::string& page, const std::string& title) {
  const size_t at = ("\n" + page).find(fmt::format("\n{:<14} ", title));
  if (at == std::string::npos) return "no line " + title + " in\n" + page;
  return page.substr(at + 15, page.find('\n', at) - at - 15);
}

TEST(BenchVerb, RanksAreThreadsOfOneProcess) {
  const TempDir dir{Where::memory};
  const std::string out = dir / "r.json";
  Answer answer = stretto_run(short_run(dir, {"-n", "2", "-o", out}), "", kWide);
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(line_of(answer.out, "topology"),
            "dp 2 x tp 1 x pp 1, ZeRO 0; global batch 4 = 2 x 1 x 2; checkpointing none");
  const json record = record_in(out);
  EXPECT_EQ(record["launcher"], "threads");
  EXPECT_EQ(record["memory"]["ranks_here"], 2);
  EXPECT_EQ(record["config"]["parallel"]["dp"], 2);
  EXPECT_GT(record["attribution"]["comm_dp"]["seconds"], 0) << "nobody waited for the other";
  const std::vector<std::string> command = record["command"];
  EXPECT_EQ(std::vector<std::string>(command.begin(), command.begin() + 4),
            (std::vector<std::string>{"stretto", "bench", "-n", "2"}));

  answer = stretto_run(short_run(dir, {"-n", "2", "parallel.tp=2", "-o", dir / "tp.json"}));
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(record_in(dir / "tp.json")["config"]["parallel"]["dp"], 1);
  expect_refused(short_run(dir, {"-n", "3", "parallel.tp=2"}), 78, "3 ranks");

  // The record knows how many they were.
  const std::vector<std::string> again = {"bench",        "--from",    out, "--machine",
                                          dir / "m.json", "--seconds", "0", "-o"};
  const auto from = [&](std::vector<std::string> more) {
    more.insert(more.begin(), again.begin(), again.end());
    return more;
  };
  answer = stretto_run(from({dir / "again.json"}));
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(record_in(dir / "again.json")["memory"]["ranks_here"], 2);
  EXPECT_EQ(record_in(dir / "again.json")["config_hash"], record["config_hash"]);
  expect_refused(from({dir / "three.json", "-n", "3"}), 78, "3 ranks");
}

TEST(BenchVerb, LeavesItsRecordWhereItIsTold) {
  const TempDir dir{Where::memory};
  const std::string out = dir / "new/folder/r.json";
  Answer answer = stretto_run(short_run(dir, {"--label", "one", "-o", out}));
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(line_of(answer.out, "record"), out);
  EXPECT_EQ(record_in(out)["label"], "one");
  answer = stretto_run(short_run(dir, {"--label", "two", "-o", out, "--json"}));
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out, content_of(out)) << "the record, and nothing else";
  EXPECT_EQ(record_in(out)["label"], "two") << "the older one is replaced";
  EXPECT_EQ(posix_fs().list(dir / "new/folder"), std::vector<std::string>{"r.json"});
  answer = stretto_run(short_run(dir, {"memory_limit=1MiB", "-o", out}));
  EXPECT_EQ(answer.code, 80);
  EXPECT_EQ(record_in(out)["status"], "OOM") << "what could not run has a record, too";
}

TEST(BenchVerb, ThePageShowsTheRecordInUnits) {
  const TempDir dir{Where::memory};
  const std::string out = dir / "r.json";
  const Answer answer = stretto_run(short_run(dir, {"-n", "2", "-o", out}), "", kWide);
  ASSERT_EQ(answer.code, 0) << answer.err;
  const json record = record_in(out), figures = record["figures"], memory = record["memory"];
  std::vector<double> timed = record["steps"]["seconds"];
  timed.erase(timed.begin(), timed.begin() + record["steps"]["warmup"].get<int>());
  std::sort(timed.begin(), timed.end());
  const size_t n = timed.size();
  ASSERT_GE(n, 2u);
  const double median = (timed[(n - 1) / 2] + timed[n / 2]) / 2;
  EXPECT_TRUE(line_of(answer.out, "step")
                  .starts_with(fmt::format("{} median of {} ", format_seconds(median), n)))
      << line_of(answer.out, "step");
  EXPECT_EQ(
      line_of(answer.out, "throughput"),
      fmt::format("{} tokens/s, {} samples/s, {} tokens/s per rank", format_count(4 * 16 / median),
                  format_digits(4 / median, 3), format_count(4 * 16 / median / 2)));
  const double flops =
      1e12 * figures["conventions"]["mpt"]["model_tflops_per_device"].get<double>();
  EXPECT_EQ(line_of(answer.out, "work"),
            fmt::format("{} GFLOP/s per rank, {} GFLOP/s in all (model FLOPs, mpt)",
                        format_digits(flops / 1e9, 4), format_digits(2 * flops / 1e9, 4)));
  EXPECT_TRUE(line_of(answer.out, "peak").starts_with("100 GFLOP/s per rank: "))  // a core of four
      << line_of(answer.out, "peak");
  EXPECT_TRUE(line_of(answer.out, "utilisation")
                  .starts_with(fmt::format("mpt           MFU {:>8}",
                                           fmt::format("{:.2f} %", flops / 1e11 * 100))))
      << line_of(answer.out, "utilisation");

  const auto size = [&](const char* key) { return format_bytes(memory[key].get<double>()); };
  EXPECT_EQ(line_of(answer.out, "memory"),
            fmt::format("{} per rank predicted, {} measured; all ranks {}, {} measured",
                        size("predicted_rank"), size("grown_rank"), size("predicted_total"),
                        size("grown_total")));
  EXPECT_NE(answer.out.find(fmt::format("\n{:<15}limit {} per rank; process peak {}, {} before", "",
                                        size("limit"), size("measured"), size("before"))),
            std::string::npos)
      << answer.out;
  EXPECT_EQ(memory["predicted_total"], 2 * memory["predicted_rank"].get<int64_t>());
}

// Both are lower bounds, and a thousand steps are enough for any number of seconds.
TEST(BenchVerb, TakesAsManyStepsAndSecondsAsItIsTold) {
  const TempDir dir{Where::memory};
  const auto timed = [&](const char* steps, const char* seconds) {
    const std::string out = dir / "r.json";
    std::vector<std::string> words = short_run(dir, {"-o", out});
    *(std::find(words.begin(), words.end(), "--steps") + 1) = steps;
    *(std::find(words.begin(), words.end(), "--seconds") + 1) = seconds;
    const Answer answer = stretto_run(words);
    EXPECT_EQ(answer.code, 0) << answer.err;
    return record_in(out)["steps"]["seconds"].get<std::vector<double>>();
  };
  EXPECT_EQ(timed("7", "0").size(), 8u);  // one may be warm-up
  const std::vector<double> longer = timed("2", "0.1");
  EXPECT_TRUE(std::accumulate(longer.begin() + 1, longer.end(), 0.0) >= 0.1 ||
              longer.size() == 1000);
  EXPECT_LT(std::accumulate(longer.begin() + 1, longer.end() - 1, 0.0), 0.1) << "steps too many";
  EXPECT_EQ(timed("2", "1e6").size(), 1000u);
  EXPECT_EQ(timed("1004", "1e6").size(), 1005u);
}

TEST(BenchVerb, PeaksHaveTheUnitOfTheirSize) {
  const TempDir dir{Where::memory};
  for (const auto& [flops, peak] : {std::pair("4e12", "1 TFLOP/s"), std::pair("4e15", "1 PFLOP/s"),
                                    std::pair("3.996e12", "999 GFLOP/s")}) {
    const Answer answer = stretto_run(short_run(dir, {}, flops));
    EXPECT_TRUE(line_of(answer.out, "peak").starts_with(std::string(peak) + " per rank"))
        << answer.out << answer.err;
  }
}

// Stages that differ share a process: what one of them grew by is not known.
TEST(BenchVerb, MemoryOfStagesIsComparedAsASum) {
  const TempDir dir{Where::memory};
  const std::string out = dir / "r.json";
  const Answer answer = stretto_run(short_run(dir, {"parallel.pp=2", "-o", out}), "", kWide);
  ASSERT_EQ(answer.code, 0) << answer.err;
  const json memory = record_in(out)["memory"];
  const auto size = [&](const char* key) { return format_bytes(memory[key].get<double>()); };
  EXPECT_EQ(line_of(answer.out, "memory"),
            fmt::format("{} predicted for the largest rank; all ranks {}, {} measured",
                        size("predicted_rank"), size("predicted_total"), size("grown_total")));
}

}  // namespace
}  // namespace stretto::test
