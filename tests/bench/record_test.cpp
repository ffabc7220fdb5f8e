#include "bench/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/figures.h"
#include "bench/sample_record.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

using nlohmann::json;

TEST(Record, ComesBackFromItsText) {
  RunRecord r = sample_record();
  r.steps[3].loss = NAN;
  r.steps[4].skipped = true;
  r.status = RunStatus::timeout;
  r.reason = "ran past 10 s \x1b[31m";
  r.nodes = 3;
  r.first_step = 7;
  r.launcher = "mpirun";
  r.predicted = {0.2, 0.1, 0.3};
  r.timing_overhead = 0.001;
  r.parts_wall = 0.1;
  r.operators[static_cast<size_t>(Op::adamw)] = {2, 0.01, 1e6, 2e6};
  r.timeline = {{{TaskKind::forward, 0, 0, 0, 0.5}}, {{TaskKind::backward_weight, 7, 1, 0.5, 1}}};
  r.gpu.add({2, 1800, 1700, 3201, 600, 650, 60, 0});
  r.gpu.add({});  // a step without a sample
  r.cores = {2, 2, 0.75, 0.25};
  r.gpu.add({2, 1600, 1500, 3201, 700, 690, 65, 4});
  const std::string text = record_text(r);
  const RunRecord back = parse_record(text, "r.json");
  EXPECT_EQ(record_text(back), text);
  EXPECT_TRUE(std::isnan(back.steps[3].loss));
  EXPECT_TRUE(back.steps[4].skipped);
  EXPECT_EQ(back.status, RunStatus::timeout);
  EXPECT_EQ(back.nodes, 3);
  EXPECT_EQ(back.first_step, 7);
  EXPECT_EQ(back.launcher, "mpirun");
  EXPECT_EQ(back.timeline[1][0].kind, TaskKind::backward_weight);
  EXPECT_EQ(back.operators[static_cast<size_t>(Op::adamw)].calls, 2u);
  EXPECT_EQ(config_hash(back.config), config_hash(r.config));
  EXPECT_TRUE(back.disturbed());
  EXPECT_EQ(back.cores.usable, 2);
  EXPECT_EQ(back.cores.others, 0.75);
  EXPECT_EQ(back.cores.idle, 0.25);
  EXPECT_EQ(back.gpu.samples, 4);
  EXPECT_EQ(back.gpu.sm_clock_mhz, 1700);
  EXPECT_EQ(back.gpu.sm_clock_mhz_min, 1500);
  EXPECT_EQ(back.gpu.power_watts, 650);
  EXPECT_EQ(back.gpu.held_back_by, throttle_text(4));
}

TEST(Record, EveryStatusComesBack) {
  RunRecord r = sample_record();
  for (int i = 0; i <= static_cast<int>(RunStatus::rejected); ++i) {
    r.status = static_cast<RunStatus>(i);
    EXPECT_EQ(parse_record(record_text(r), "r.json").status, r.status) << name_of(r.status);
  }
  EXPECT_STREQ(name_of(RunStatus::rejected), "rejected");
}

TEST(Record, HashFollowsTheConfigurationAlone) {
  const RunRecord r = sample_record();
  Config other = r.config;
  other.output = "elsewhere";
  other.log.every = 7;
  EXPECT_EQ(config_hash(other), config_hash(r.config));
  other.parallel.tp = 2;
  EXPECT_NE(config_hash(other), config_hash(r.config));
}

TEST(Record, StoredFiguresAreNotBelieved) {
  json document = json::parse(record_text(sample_record()));
  document["figures"]["tokens_per_second"] = 1e30;
  const RunRecord r = parse_record(document.dump(), "r.json");
  EXPECT_NEAR(derive(r).tokens_per_second, 1024 / 0.102, 100);
}

TEST(Record, RefusesWhatItCannotTrust) {
  const json good = json::parse(record_text(sample_record()));
  const auto refused = [&](const char* pointer, const json& value, const char* part) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    EXPECT_ERROR(parse_record(bad.dump(), "r.json"), ExitCode::bad_data, part);
  };
  refused("/format", "other", "format");
  refused("/schema", 99, "schema");
  refused("/status", "fine", "status");
  refused("/steps/seconds/2", -1, "steps.seconds");
  refused("/steps/seconds/2", "1", "steps.seconds");
  for (const double not_a_time : {0.0, 5e-324, 1e308}) {
    refused("/steps/seconds/2", not_a_time, "steps.seconds");
  }
  refused("/steps/warmup", 14, "steps.warmup");
  refused("/steps/warmup", -1, "steps.warmup");
  refused("/steps/skipped", json::array({13}), "steps.skipped");
  refused("/steps/loss", json::array(), "steps.loss");
  refused("/config/parallel/tp", 0, "config");
  refused("/config/micro_batch", "auto", "micro_batch");
  refused("/config/seq_len", 0, "config.seq_len");
  refused("/config/global_batch", int64_t{1} << 62, "config.global_batch");
  refused("/config/model/hidden", int64_t{1} << 62, "config.model.hidden");
  refused("/memory/measured", 1e300, "memory.measured");
  refused("/launcher", "$(reboot)", "launcher");
  refused("/launcher", 3, "launcher");
  refused("/machine", json::array(), "machine");
  refused("/cores", json{{"usable", 2}, {"wanted", 2}, {"others", -1}, {"idle", 0}},
          "cores.others");
  refused("/cores", json{{"usable", 2}}, "cores");
  json rejected = good;  // its configuration may be what it was rejected for
  rejected["status"] = "rejected";
  rejected["config"]["seq_len"] = 0;
  EXPECT_EQ(parse_record(rejected.dump(), "r.json").config.seq_len, 0);
  json missing = good;
  missing.erase("device");
  EXPECT_ERROR(parse_record(missing.dump(), "r.json"), ExitCode::bad_data, "device");
}

// A run of `train` has no attribution, no prediction and no memory of its process. Zeros would look
// like figures.
TEST(Record, WhatWasNotMeasuredIsNotThere) {
  RunRecord r = sample_record();
  r.predicted = {0.1, 0.09, 0.11};
  const json whole = json::parse(record_text(r));
  r.parts = {};
  r.parts_wall = r.peak = r.gemm_peak = 0;
  r.predicted = {};
  r.memory.measured = r.memory.limit = 0;
  const std::string text = record_text(r);
  const json document = json::parse(text);
  for (const char* key : {"attribution", "attribution_wall", "timing_overhead", "peak_flops",
                          "gemm_flops", "predicted"}) {
    EXPECT_FALSE(document.contains(key)) << key;
  }
  for (const char* key : {"measured", "before", "grown_rank", "limit"}) {
    EXPECT_FALSE(document["memory"].contains(key)) << key;
  }
  EXPECT_EQ(record_text(parse_record(text, "r.json")), text);
  for (const char* key : {"attribution", "attribution_wall", "timing_overhead", "peak_flops",
                          "gemm_flops", "predicted"}) {
    EXPECT_TRUE(whole.contains(key)) << key;
  }
}

TEST(Record, OlderOnesHaveNoTimelineAndNewOnesAreChecked) {
  json document = json::parse(record_text(sample_record()));
  for (const char* key :
       {"nodes", "launcher", "operators", "timeline", "timing_overhead", "predicted"}) {
    document.erase(key);
  }
  document["memory"].erase("grown_rank");
  EXPECT_EQ(parse_record(document.dump(), "r.json").nodes, 1);
  EXPECT_EQ(parse_record(document.dump(), "r.json").launcher, "");
  const auto refused = [&](const char* text) {
    document["timeline"] = json::parse(text);
    EXPECT_ERROR(parse_record(document.dump(), "r.json"), ExitCode::bad_data, "timeline");
  };
  refused("3");
  refused("[3]");
  refused("[[[0,0,0,1]]]");
  refused("[[[9,0,0,1,2]]]");
  refused("[[[0,0,0,2,1]]]");
  refused("[[[0,-1,0,1,2]]]");
}

TEST(Record, RefusesTextThatIsNoJson) {
  EXPECT_ERROR(parse_record("", "r.json"), ExitCode::bad_data, "r.json");
  EXPECT_ERROR(parse_record("[1,2", "r.json"), ExitCode::bad_data, "r.json");
  EXPECT_ERROR(parse_record("[]", "r.json"), ExitCode::bad_data, "object");
  EXPECT_ERROR(parse_record(std::string(100000, '['), "r.json"), ExitCode::bad_data, "deep");
  EXPECT_ERROR(parse_record("\xff\xfe", "r.json"), ExitCode::bad_data, "r.json");
}

// Readers differ in which of two equal keys they take, so such a record has no meaning.
TEST(Record, RefusesAKeyThatIsThereTwice) {
  const std::string text = record_text(sample_record());
  EXPECT_NO_THROW(parse_record(text, "r.json"));
  std::string twice = text;
  twice.insert(twice.find('{') + 1, R"("device": "A faster processor",)");
  EXPECT_ERROR(parse_record(twice, "r.json"), ExitCode::bad_data, "\"device\" appears twice");
}

// As after some `stretto train ... output=runs/NAME`.
TEST(Record, OfADirectoryOfRunsAreThoseOfItsRuns) {
  TempDir dir;
  EXPECT_TRUE(find_records(posix_fs(), dir.path()).empty());
  std::filesystem::create_directory(dir / "empty");
  write_record(posix_fs(), dir / "b/run-2026-01-01T00-00-00Z.json", sample_record());
  write_record(posix_fs(), dir / "a/run-2026-01-02T00-00-00Z.json", sample_record());
  write_record(posix_fs(), dir / "group/sweep/points/x/record.json", sample_record());
  write_record(posix_fs(), dir / "1/2/3/4/run-x.json", sample_record());  // too deep
  dir.write("exported/config.json", "{}");                                // of no run
  const auto found = find_records(posix_fs(), dir.path());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].path, dir / "a/run-2026-01-02T00-00-00Z.json");
  EXPECT_EQ(found[1].path, dir / "b/run-2026-01-01T00-00-00Z.json");
  EXPECT_EQ(found[2].path, dir / "group/sweep/points/x/record.json");
  write_record(posix_fs(), dir / "own.json", sample_record());
  EXPECT_EQ(find_records(posix_fs(), dir.path()).size(), 1u) << "its own";
}

TEST(Record, FoundBelowADirectoryAndStrangersSkipped) {
  TempDir dir;
  write_record(posix_fs(), dir / "a.json", sample_record());
  write_record(posix_fs(), dir / "points/x/record.json", sample_record());
  dir.write("b.json", "{}");
  dir.write("machine.json", "{}");
  const auto found = find_records(posix_fs(), dir.path());
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].path, dir / "a.json");
  EXPECT_ERROR(find_records(posix_fs(), dir / "nothing"), ExitCode::no_input, "nothing");
}

TEST(Figures, FollowFromTheTimedSteps) {
  const RunRecord r = sample_record();
  const Figures f = derive(r);
  EXPECT_EQ(f.step.count, 12);
  EXPECT_DOUBLE_EQ(f.tokens_per_second, 8 * 128 / f.step.median);
  EXPECT_DOUBLE_EQ(f.samples_per_second, 8 / f.step.median);
  EXPECT_LE(f.low_tokens_per_second, f.tokens_per_second);
  EXPECT_GE(f.high_tokens_per_second, f.tokens_per_second);
  ASSERT_TRUE(f.of(Convention::mpt).utilization);
  EXPECT_DOUBLE_EQ(f.of(Convention::mpt).utilization->mfu,
                   f.of(Convention::mpt).model_flops / 1e11);
  EXPECT_EQ(grad_accumulation(r.config), 2);
}

TEST(Figures, UnknownPeakGivesNoUtilization) {
  RunRecord r = sample_record();
  r.peak = r.gemm_peak = 0;
  EXPECT_FALSE(derive(r).of(Convention::mpt).utilization);
  EXPECT_FALSE(derive(r).gemm_fraction);
}

TEST(Figures, TokensPerSecondDoNotDependOnHowARunIsCut) {
  RunRecord r = sample_record();
  const Figures one = derive(r);
  r.config.parallel.tp = 4;
  const Figures four = derive(r);
  EXPECT_DOUBLE_EQ(one.tokens_per_second, four.tokens_per_second);
  EXPECT_DOUBLE_EQ(one.tokens_per_second_per_device, 4 * four.tokens_per_second_per_device);
  EXPECT_DOUBLE_EQ(one.aggregate_pflops, four.aggregate_pflops);
}

}  // namespace
}  // namespace stretto
