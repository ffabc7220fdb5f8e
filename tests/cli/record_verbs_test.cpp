// Verbs that read and write records: bench, report, plan calibrate.
#include <fmt/format.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "bench/sample_record.h"
#include "support/run_verb.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

RunRecord run_on(const std::string& gpu) {  // empty: none
  RunRecord r = sample_record();
  r.machine =
      R"({"cpu": {"usable": 2}, "memory": {"total_bytes": 8e9}, "gpu": {"devices": [{"name": ")" +
      gpu + R"("}]}, "measured": {"gemm_flops": 2e11, "triad_bytes_per_second": 2e10}})";
  r.config.device = gpu.empty() ? Device::cpu : Device::cuda;
  return r;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RecordVerbs, ReportOfOneRecordLiesBesideIt) {
  const TempDir dir;
  write_record(posix_fs(), dir / "run.json", sample_record());
  const VerbAnswer answer = run_verb({"report", dir / "run.json"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_EQ(answer.out, (dir / "report.html") + "\n");
  EXPECT_TRUE(std::filesystem::exists(dir / "report.html"));
}

// Records have neither evaluations nor, from `train`, where the time went: metrics.jsonl has.
TEST(RecordVerbs, ReportOfATrainingRunReadsItsMetrics) {
  const TempDir dir;
  ASSERT_EQ(run_verb({"train", "tiny-100k", "seq_len=16", "micro_batch=1", "global_batch=2",
                      "threads=1", "train.steps=4", "train.eval_every=2", "train.eval_batches=1",
                      "data.path=" STRETTO_SOURCE_DIR "/LICENSE", "output=" + (dir / "run")})
                .code,
            0);
  ASSERT_EQ(run_verb({"report", dir / "run"}).code, 0);
  const std::string page = content_of(dir / "run/report.html");
  const std::string open = "id=\"data\" nonce=\"";
  const size_t from = page.find('>', page.find(open)) + 1;
  const auto data = nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
  EXPECT_EQ(data["training"]["steps"].size(), 4u);
  ASSERT_EQ(data["training"]["evaluations"].size(), 2u);
  EXPECT_EQ(data["training"]["evaluations"][1][0], 4);
  const auto& parts = data["rows"][0]["parts"];
  EXPECT_GT(parts["matmul"].get<double>(), 0);
  EXPECT_GT(parts["optimizer"].get<double>(), 0);
  EXPECT_EQ(run_verb({"report", dir / "run", "--out", dir / "run/metrics.jsonl"}).code, 64)
      << "its own input";
}

TEST(RecordVerbs, WhatARunLeavesBesideItsRecordIsNoStranger) {
  const TempDir dir;
  write_record(posix_fs(), dir / "run-2026-01-01T00-00-00Z.json", sample_record());
  dir.write("tokenizer.json", R"({"model": {}})");
  dir.write("trace.json", R"({"traceEvents": []})");
  EXPECT_EQ(run_verb({"collect", dir.path(), "-q"}).err, "");
  dir.write("other.json", "{}");
  EXPECT_TRUE(says(run_verb({"collect", dir.path(), "-q"}).err, "other.json"));
  write_record(posix_fs(), dir / "trace.json", sample_record());
  EXPECT_EQ(find_records(posix_fs(), dir.path()).size(), 2u) << "a record may have any name";
}

TEST(RecordVerbs, OneRecordThatIsLeftOutIsOne) {
  const TempDir dir;
  for (const char* name : {"a.json", "b.json"}) {
    write_record(posix_fs(), dir / name, sample_record());
  }
  EXPECT_TRUE(says(run_verb({"collect", dir.path()}).err, "1 record is left out"));
}

// The machine is read right before measuring, which must not be for nothing.
TEST(RecordVerbs, BenchLooksForRoomForItsRecordFirst) {
  const TempDir dir;
  const std::string file = dir.write("file", "");
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  for (const std::string& out : {dir.path(), file + "/run.json", dir / "pipe"}) {
    const VerbAnswer answer =
        run_verb({"bench", "tiny", "--machine", dir / "missing.json", "--out", out});
    EXPECT_EQ(answer.code, 73) << out << ": " << answer.err;
  }
  EXPECT_EQ(
      run_verb({"bench", "tiny", "--machine", dir / "missing.json", "--out", dir / "a/b.json"})
          .code,
      66);
  EXPECT_TRUE(std::filesystem::is_empty(dir / "a"));
}

// An output replaces what is there, which must not be what it is made of.
TEST(RecordVerbs, NoOutputReplacesAnInput) {
  const TempDir dir;
  const std::string config = dir.write("c.yaml", "model: tiny\n"), text = dir.write("t.txt", "a");
  const std::string record = dir / "r.json", machine = dir.write("m.json", "{}");
  write_record(posix_fs(), record, run_on(""));
  std::filesystem::create_symlink(config, dir / "link.yaml");
  const std::vector<std::vector<std::string>> commands = {
      {"bench", config, "--out", config},
      {"bench", dir / "link.yaml", "--out", config},
      {"bench", "tiny", "data.path=" + text, "--out", text},
      {"bench", "--from", record, "--out", dir / "./r.json"},
      {"bench", "tiny", "--machine", machine, "--out", machine},
      {"report", record, "--out", record},
      {"report", dir.path(), "--out", record},
      {"plan", "calibrate", record, "--write", record},
      {"plan", "calibrate", dir.path(), "--write", record},
      {"plan", "calibrate", dir / "runs.csv", "--software", config, "--write", config},
      {"plan", "exam", "--dir", dir.path(), "--write", record},
      {"plan", config, "--scale", "--svg", config},
      {"eval", dir.path(), text, "--logits", text}};
  const auto before = std::filesystem::last_write_time(record);
  for (const auto& words : commands) {
    const VerbAnswer answer = run_verb(words);
    EXPECT_EQ(answer.code, 64) << words[0] << " " << words[1] << ": " << answer.err;
    EXPECT_TRUE(says(answer.err, "which is an input")) << answer.err;
  }
  EXPECT_EQ(std::filesystem::last_write_time(record), before);
  EXPECT_EQ(read_file(posix_fs(), config, 100), "model: tiny\n");
  EXPECT_EQ(run_verb({"report", dir.path(), "--out", dir / "new.json"}).code, 0);
}

// No errors are not errors of zero.
TEST(RecordVerbs, NothingToCompareIsNoSuccess) {
  const TempDir dir;
  write_record(posix_fs(), dir / "one.json", run_on(""));
  for (const char* form : {"-q", "--json"}) {
    const VerbAnswer answer = run_verb({"plan", "compare", dir.path(), form});
    EXPECT_EQ(answer.code, 66) << form;
    EXPECT_EQ(answer.out, "") << form;
  }
}

TEST(RecordVerbs, ARecordOfAnotherSourceIsShownButPredictsNothing) {
  const TempDir dir;
  RunRecord r = run_on("");
  r.source = "published";
  r.label = "theirs";
  write_record(posix_fs(), dir / "theirs.json", r);
  const VerbAnswer table = run_verb({"collect", dir.path(), "--style", "full"});
  EXPECT_TRUE(says(table.out, "theirs")) << table.out;
  EXPECT_EQ(run_verb({"report", dir.path()}).code, 0);
  EXPECT_TRUE(says(content_of(dir / "report.html"), "\"label\":\"theirs\""));
  for (const char* verb : {"compare", "calibrate"}) {
    const VerbAnswer answer = run_verb({"plan", verb, dir.path()});
    EXPECT_EQ(answer.code, 66) << verb << answer.out << answer.err;
  }
}

TEST(RecordVerbs, OneRunBesideTheKnownOneIsOne) {
  const TempDir dir;
  RunRecord r = run_on("");
  write_record(posix_fs(), dir / "one.json", r);
  r.config.seq_len /= 2;
  write_record(posix_fs(), dir / "two.json", r);
  const VerbAnswer answer = run_verb({"plan", "compare", dir.path()});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(says(answer.out, "; 1 other is")) << answer.out;
}

TEST(RecordVerbs, ForecastsSayWhatTheyLeaveOut) {
  const TempDir dir;
  RunRecord r = run_on("");
  r.memory = {};  // of which nothing was measured
  write_record(posix_fs(), dir / "one.json", r);
  r.config.seq_len /= 2;
  write_record(posix_fs(), dir / "two.json", r);
  r.config.seq_len /= 2;
  r.status = RunStatus::oom;
  write_record(posix_fs(), dir / "three.json", r);
  VerbAnswer answer = run_verb({"plan", "compare", dir.path()});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(says(answer.out, "1 run is left out")) << answer.out;
  EXPECT_FALSE(says(answer.out, "memory per rank 0")) << answer.out;
  answer = run_verb({"plan", "compare", dir.path(), "--json"});
  EXPECT_TRUE(says(answer.out, "\"left_out\": 1")) << answer.out;
  EXPECT_TRUE(says(answer.out, "\"memory_median_error\": null")) << answer.out;
}

TEST(RecordVerbs, NothingInCommonIsOneMessage) {
  const TempDir dir;
  for (int i = 0; i < 6; ++i) {
    RunRecord r = sample_record();
    r.config.seed = 100 + i;
    write_record(posix_fs(), dir / fmt::format("{}/{}.json", i % 2 == 0 ? "a" : "b", i), r);
  }
  const VerbAnswer answer = run_verb({"compare", dir / "a", dir / "b"});
  EXPECT_EQ(answer.code, 66);
  EXPECT_FALSE(says(answer.err, "not compared")) << answer.err;
  EXPECT_TRUE(says(answer.err, "hold no configuration in common")) << answer.err;
  EXPECT_TRUE(says(answer.err, "`stretto collect DIR` and `stretto report DIR`")) << answer.err;
}

TEST(RecordVerbs, CollectSaysInWhatUnitModelTflopIs) {
  const TempDir dir;
  write_record(posix_fs(), dir / "a.json", sample_record());
  for (const auto& [style, shown] :
       {std::pair("mpt", true), std::pair("full", true), std::pair("bloom", false)}) {
    const VerbAnswer answer = run_verb({"collect", dir.path(), "--style", style});
    EXPECT_EQ(says(answer.out, "|\n\nModel TFLOP is in hundreds of TFLOP/s per device"), shown)
        << answer.out;
    EXPECT_EQ(read_file(posix_fs(), dir / "results.md", 1 << 20), answer.out);
  }
}

// A ratio of one would be that of runs that take the same time.
TEST(RecordVerbs, WhatWasNotTimedHasNoRatio) {
  const TempDir dir;
  RunRecord r = sample_record();
  write_record(posix_fs(), dir / "a.json", r);
  r.status = RunStatus::oom;
  write_record(posix_fs(), dir / "b.json", r);
  const VerbAnswer answer = run_verb({"compare", dir / "a.json", dir / "b.json", "--json"});
  EXPECT_EQ(answer.code, 1) << answer.err;
  for (const char* figure : {"ratio", "ratio_low", "ratio_high", "median_b"}) {
    EXPECT_TRUE(says(answer.out, fmt::format("\"{}\": null", figure))) << answer.out;
  }
  EXPECT_FALSE(says(answer.out, "\"median_a\": null")) << answer.out;
}

TEST(RecordVerbs, PageOfARunThatWasRefused) {
  const TempDir dir;
  const std::string machine = dir.write("machine.json", run_on("").machine);
  const auto page = [&](const char* micro_batch) {
    const VerbAnswer answer =
        run_verb({"bench", "tiny", micro_batch, "memory_limit=1MiB", "--machine", machine});
    EXPECT_EQ(answer.code, 80) << answer.err;
    return answer.out;
  };
  EXPECT_TRUE(says(page("micro_batch=2"), "global batch 8 = 1 x 2 x 4;"));
  EXPECT_TRUE(says(page("micro_batch=3"), "global batch 8 = 1 x 3 x 3 - 1;"));
  EXPECT_FALSE(says(page("micro_batch=2"), " 0 B measured"));
}

TEST(RecordVerbs, CalibrateFitsADeviceToItsOwnRuns) {
  const TempDir dir;
  write_record(posix_fs(), dir / "cpu.json", run_on(""));
  const VerbAnswer cpu =
      run_verb({"plan", "calibrate", dir / "cpu.json", "--write", dir / "f.yaml"});
  EXPECT_EQ(cpu.code, 0) << cpu.err;
  const VerbAnswer other = run_verb({"plan", "calibrate", dir / "cpu.json", "--cluster", "h200"});
  EXPECT_EQ(other.code, 65) << other.err;
  EXPECT_TRUE(says(other.err, "--cluster local")) << other.err;
  const VerbAnswer software =
      run_verb({"plan", "calibrate", dir / "cpu.json", "--software", "composer-fsdp"});
  EXPECT_EQ(software.code, 66) << "a record is of our own software";
  EXPECT_TRUE(says(software.err, "of composer-fsdp")) << software.err;
  write_record(posix_fs(), dir / "gpu.json", run_on("NVIDIA H200"));
  const VerbAnswer gpu = run_verb({"plan", "calibrate", dir / "gpu.json"});
  EXPECT_EQ(gpu.code, 65) << gpu.err;
  EXPECT_TRUE(says(gpu.err, "--cluster h200")) << gpu.err;
  const VerbAnswer both = run_verb({"plan", "calibrate", dir.path(), "--cluster", "h200"});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_TRUE(says(both.out, "1 timed run;")) << both.out;
  EXPECT_TRUE(says(both.err, "local")) << both.err;
}

// One run leaves no residual: its plan had an interval of 5 %.
TEST(RecordVerbs, AFewRunsDoNotNarrowTheInterval) {
  const TempDir dir;
  const auto fit = [&](int rows) {
    std::string table =
        "id,layers,hidden,heads,vocab,seq_len,global_batch,dp,tp,pp,micro_batch,seconds\n";
    for (int i = 0; i < rows; ++i) {
      const int batch = 8 << i % 4;
      table += fmt::format("r{},12,768,12,50368,1024,{},1,1,1,8,{}\n", i, batch, 0.0016 * batch);
    }
    const VerbAnswer answer = run_verb({"plan", "calibrate", dir.write("runs.csv", table),
                                        "--cluster", "h200", "--write", dir / "f.yaml"});
    EXPECT_EQ(answer.code, 0) << answer.err;
    EXPECT_EQ(says(answer.out, "keep an interval of 25 %"), rows < 8) << answer.out;
    return read_file(posix_fs(), dir / "f.yaml", 1 << 20);
  };
  EXPECT_TRUE(says(fit(1), "1 own run, too few"));
  EXPECT_TRUE(says(fit(7), "fitted: false"));
  const VerbAnswer plan = run_verb({"plan", "mpt-125m", "--cluster", "h200", "--gpus", "1", "--top",
                                    "1", "--software", dir / "f.yaml"});
  EXPECT_TRUE(says(plan.out, "interval +-25 %")) << plan.out;
  EXPECT_TRUE(says(fit(8), "fitted: true"));
  EXPECT_TRUE(says(fit(8), "fitted_devices: 1"));
}

// Runs that no constants describe: the file says so, and so does every plan that uses it.
TEST(RecordVerbs, ADoubtfulFitIsNoSuccess) {
  const TempDir dir;
  const std::string head =
      "id,layers,hidden,heads,vocab,seq_len,global_batch,dp,tp,pp,micro_batch,seconds\n";
  std::string noisy = head, good = head;
  for (int i = 0; i < 8; ++i) {
    const int batch = 8 << i % 4;
    const std::string row = fmt::format("r{0},12,768,12,50368,1024,{1},1,1,1,8,", i, batch);
    good += row + fmt::format("{}\n", 0.0016 * batch);
    noisy += row + fmt::format("{}\n", 0.0016 * batch * (i % 2 == 0 ? 3 : 0.3));
  }
  const auto fit = [&](const std::string& table, const char* form) {
    return run_verb({"plan", "calibrate", dir.write("runs.csv", table), "--cluster", "h200",
                     "--write", dir / "f.yaml", form});
  };
  const auto plan = [&] {
    return run_verb({"plan", "mpt-125m", "--cluster", "h200", "--gpus", "1", "--top", "1",
                     "--software", dir / "f.yaml"});
  };
  EXPECT_EQ(fit(good, "-q").code, 0);
  EXPECT_FALSE(says(plan().out, "doubtful"));
  for (const char* form : {"-q", "--json"}) {
    const VerbAnswer answer = fit(noisy, form);
    EXPECT_EQ(answer.code, 1) << form << answer.err;
    EXPECT_TRUE(says(answer.err, "not to be trusted, and are written as not fitted")) << answer.err;
    EXPECT_FALSE(says(answer.out, "use it")) << answer.out;
    EXPECT_TRUE(says(plan().out, "doubtful (the runs spread by")) << plan().out;
  }
}

// Times of a machine that others used are not passed on in silence.
TEST(RecordVerbs, ADisturbedRunSaysSoEverywhere) {
  const TempDir dir;
  RunRecord r = run_on("");
  r.cores = {2, 2, 1, 0};
  write_record(posix_fs(), dir / "busy.json", r);
  const char* const what = "other programs took 1.0 of 2 cores";
  EXPECT_TRUE(says(run_verb({"collect", dir.path(), "--style", "full"}).out, what));
  ASSERT_EQ(run_verb({"report", dir.path(), "-o", dir / "page.html"}).code, 0);
  EXPECT_TRUE(says(content_of(dir / "page.html"), what));
  const VerbAnswer fit = run_verb({"plan", "calibrate", dir / "busy.json"});
  EXPECT_TRUE(says(fit.err, "took cores from 1 run")) << fit.err;
  // Before any error is told that may be the machine's.
  r.config.seq_len /= 2;
  write_record(posix_fs(), dir / "other.json", r);
  const std::string told = run_verb({"plan", "compare", dir.path()}).out;
  const size_t busy = told.find("This machine was busy: other programs took cores from 2 of these");
  EXPECT_LT(busy, told.find("median error")) << told;
  r.cores = {};
  for (const char* name : {"busy.json", "other.json"}) {
    write_record(posix_fs(), dir / name, r);
    r.config.seq_len /= 2;
  }
  EXPECT_FALSE(says(run_verb({"plan", "compare", dir.path()}).out, "busy"));
}

// A run without a label has the name of its file, which may be any bytes.
TEST(RecordVerbs, CalibrateNamesFilesThatAreNoText) {
  const TempDir dir;
  for (int i = 0; i < 5; ++i) {
    RunRecord r = run_on("");
    r.label.clear();
    for (StepSample& step : r.steps) step.seconds = i == 0 ? 9 : 0.1;
    r.config.seed = i;
    write_record(posix_fs(), dir / ("\xff" + std::to_string(i) + ".json"), r);
  }
  const VerbAnswer answer = run_verb({"plan", "calibrate", dir.path(), "--json"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(says(answer.out, "0.json")) << answer.out;  // a suspect
}

TEST(RecordVerbs, JsonOfFilesWhoseNamesAreNoText) {
  const TempDir dir;
  const std::string file = dir.write("\xff.yaml", "model: tiny\n");
  for (const char* verb : {"show", "check"}) {
    const VerbAnswer answer = run_verb({"config", verb, file, "micro_batch=3", "--json"});
    EXPECT_NE(answer.code, 70) << answer.err;
    EXPECT_NE(answer.out, "") << verb;
  }
}

TEST(RecordVerbs, CalibrateTakesARecordOfAnyName) {
  const TempDir dir;
  write_record(posix_fs(), dir / "record", run_on(""));
  const VerbAnswer answer = run_verb({"plan", "calibrate", dir / "record"});
  EXPECT_EQ(answer.code, 0) << answer.err;
}

}  // namespace
}  // namespace stretto
