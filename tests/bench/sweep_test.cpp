#include "bench/sweep.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/shell_text.h"
#include "base/strict_json.h"
#include "bench/figures.h"
#include "bench/launcher.h"
#include "bench/report.h"
#include "bench/safe_text.h"
#include "bench/sample_record.h"
#include "bench/tables.h"
#include "config/reader.h"
#include "config/schema.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

std::vector<SweepPoint> parse(std::string_view text) {
  return parse_sweep(parse_yaml(text, "s.yaml")).points;
}

TEST(SweepSpec, GridIsEveryCombinationAndPointsFollow) {
  const SweepSpec spec = parse_sweep(parse_yaml(
      "base: tiny\nset: {threads: 1}\ngrid: {parallel.tp: [1, 2], seq_len: [32, 64, 128]}\n"
      "points: [{name: extra, seed: 7, timeout: 5s}]\nsteps: 20\nseconds: 3\ntimeout: 90s\n",
      "s.yaml"));
  ASSERT_EQ(spec.points.size(), 7u);
  EXPECT_EQ(spec.points[1].words,
            (std::vector<std::string>{"tiny", "threads=1", "parallel.tp=1", "seq_len=64"}));
  EXPECT_EQ(spec.points[5].label, "tp2_seq_len128");
  EXPECT_EQ(spec.points[6].label, "extra");
  EXPECT_EQ(spec.steps, 20);
  EXPECT_DOUBLE_EQ(spec.timeout, 90);
  EXPECT_DOUBLE_EQ(spec.seconds, 3);
  EXPECT_DOUBLE_EQ(spec.points[6].timeout, 5);
  EXPECT_DOUBLE_EQ(spec.points[0].timeout, 0);
  EXPECT_EQ(spec.points[6].words, (std::vector<std::string>{"tiny", "threads=1", "seed=7"}));
}

// A word needs no key in a label unless two keys have the same word; numbers and switches do.
TEST(SweepSpec, LabelsAreShortWhereWordsSayWhatTheyAre) {
  const auto label = [](const char* grid) {
    return parse(fmt::format("base: tiny\ngrid: {{{}}}\n", grid)).at(0).label;
  };
  EXPECT_EQ(label("precision: [amp_bf16, fp32], parallel.dp: [2], "
                  "activation_checkpointing: [selective]"),
            "amp_bf16_dp2_selective");
  EXPECT_EQ(label("train.schedule: [none, x], activation_checkpointing: [none]"),
            "schedulenone_activation_checkpointingnone");
  EXPECT_EQ(label("optimizer_offload: [true], micro_batch: [auto]"),
            "optimizer_offloadtrue_micro_batchauto");
  EXPECT_EQ(label("model: [tiny-1m], data.path: [texts/a.txt]"), "tiny-1m_a.txt");
  SweepFlags flags;
  flags.models = {"tiny"};
  flags.precisions = {"amp_bf16"};
  flags.checkpointing = {"selective", "full"};
  EXPECT_EQ(points_of(flags).at(1).label, "tiny_amp_bf16_full");
}

TEST(SweepSpec, MistakesNameTheirPlace) {
  EXPECT_ERROR(parse("grud: {a: 1}"), ExitCode::bad_config, "grud");
  EXPECT_ERROR(parse("base: tiny"), ExitCode::bad_config, "no points");
  EXPECT_ERROR(parse("grid: {seq_len: []}"), ExitCode::bad_config, "seq_len");
  EXPECT_ERROR(parse("points: [{name: a/../b}]"), ExitCode::bad_config, "s.yaml:1");
  EXPECT_ERROR(parse("points: [{name: $(reboot)}]"), ExitCode::bad_config, "name");
  EXPECT_ERROR(parse("points: [3]"), ExitCode::bad_config, "mapping");
  EXPECT_ERROR(parse("points: [{name: a, timeout: 0s}]"), ExitCode::bad_config, "timeout");
  EXPECT_ERROR(parse("points: [{name: a, timeout: soon}]"), ExitCode::bad_config, "s.yaml:1:29");
  for (const char* line : {"steps: few", "steps: 0", "steps: 2M", "steps: 1.5", "seconds: -1",
                           "seconds: inf", "timeout: 0s", "timeout: soon"}) {
    EXPECT_ERROR(parse("grid: {seed: 1}\n" + std::string(line)), ExitCode::bad_config, "s.yaml:2:");
  }
  std::string large = "grid:\n";
  for (const char* key : {"seed", "seq_len", "threads", "micro_batch", "global_batch"}) {
    large += std::string("  ") + key + ": [1,2,3,4,5,6,7,8,9,10]\n";
  }
  EXPECT_ERROR(parse(large), ExitCode::bad_config, "points");
}

TEST(SweepSpec, FlagsMakeTheSameGridAsTheScriptTheyComeFrom) {
  SweepFlags flags;
  flags.models = {"13b.yaml", "mpt-30b"};
  flags.precisions = {"amp_fp16"};
  flags.batches = {21, 21};
  flags.sequences = {11, 14};
  const auto points = points_of(flags);
  ASSERT_EQ(points.size(), 8u);
  const Config c = load_config(points[3].words).config;
  EXPECT_EQ(c.model.name, "mpt-13b");
  EXPECT_EQ(c.seq_len, 16384);
  EXPECT_EQ(c.model.positions, 16384);
  EXPECT_EQ(c.global_batch, (1 << 21) / 16384);
  EXPECT_EQ(c.precision, Precision::amp_fp16);
}

TEST(SweepSpec, RanksAndAccumulationAreWorkedOut) {
  SweepFlags flags;
  flags.models = {"tiny"};
  flags.tp = {1, 2};
  flags.ranks = {4};
  flags.micro_batches = {"2"};
  flags.accumulations = {3};
  const auto points = points_of(flags);
  ASSERT_EQ(points.size(), 2u);
  const Config c = load_config(points[1].words).config;
  EXPECT_EQ(c.parallel.dp, 2);
  EXPECT_EQ(c.global_batch, 12);
  flags.sequences = {9};
  EXPECT_ERROR(points_of(flags), ExitCode::usage, "-s");
  EXPECT_ERROR(points_of(SweepFlags{}), ExitCode::usage, "-m");
}

// A quoted text in the file is the value, even if it looks like YAML without its quotes.
TEST(SweepSpec, TextsAreReadAsYamlOnce) {
  for (const std::string text :
       {"'a'", "\"a\"", "[a", "{a}", "{a: b}", "[1, 2]", "'", "it's", "[a\\tb", "\"\u00e4"}) {
    const std::string value = json_quote(text);  // JSON is YAML
    const auto points =
        parse("base: tiny\nset: {data.path: " + value + "}\ngrid: {data.eval_path: [" + value +
              "]}\npoints: [{data.eval_path: " + value + "}]\n");
    for (const SweepPoint& point : points) {
      const Config c = load_config(point.words, point.places).config;
      EXPECT_EQ(c.data.path, text);
      EXPECT_EQ(c.data.eval_path, text);
    }
  }
  const auto points = parse("base: tiny\ngrid: {parallel.partition: ['[1, 3]', '[2,2]']}\n");
  EXPECT_EQ(load_config(points.at(0).words).config.parallel.partition.listed,
            (std::vector<int64_t>{1, 3}));
}

// A mistake is found before anything is measured, and the message names its place in the file.
TEST(SweepSpec, MistakesInPointsNameFileAndLine) {
  const auto read = [](const char* text) { require_readable(parse(text)); };
  EXPECT_ERROR(read("base: tiny\ngrid:\n  modle: 1\n"), ExitCode::bad_config, "s.yaml:3:");
  EXPECT_ERROR(read("base: tiny\nset:\n  seq_len: many\ngrid: {seed: [1, 2]}\n"),
               ExitCode::bad_config, "s.yaml:3:");
  EXPECT_ERROR(read("base: tiny\npoints:\n- {seed: 1}\n- {seed: -x}\n"), ExitCode::bad_config,
               "s.yaml:4:");
  EXPECT_ERROR(read("base: tinny\ngrid: {seed: 1}\n"), ExitCode::no_input, "s.yaml:1:");
  const auto planned = plan_points(parse("base: tiny\npoints:\n- {parallel.tp: 3}\n"));
  EXPECT_NE(planned.at(0).reason.find("s.yaml:3:"), std::string::npos) << planned[0].reason;
  EXPECT_EQ(planned[0].reason.find("command line"), std::string::npos) << planned[0].reason;
}

// A point runs what its label says: where numbers do not divide evenly it becomes a row with a
// reason.
TEST(SweepSpec, FlagsThatDoNotComeOutEvenAreRejectedPoints) {
  SweepFlags flags;
  flags.models = {"tiny"};
  flags.sequences = {5, 9};
  flags.batches = {8, 8};
  flags.ranks = {3, 4, 8};
  flags.tp = {2};
  flags.pp = {1, 4};
  std::map<std::string, std::string> reasons;
  for (const PlannedPoint& p : plan_points(points_of(flags))) {
    reasons[p.point.label] = p.reason;
    if (!p.reason.empty()) {
      EXPECT_EQ(p.status, RunStatus::rejected) << p.point.label;
      const bool whole = p.config.seq_len <= 256;
      EXPECT_TRUE(!whole || p.config.global_batch * p.config.seq_len == 256) << p.point.label;
      continue;
    }
    const std::string end =
        fmt::format("_b{}_g{}", p.config.global_batch * p.config.seq_len, p.config.world_size());
    EXPECT_TRUE(p.point.label.ends_with(end)) << p.point.label;
  }
  EXPECT_EQ(reasons.size(), 30u);  // none is taken for another's twin
  EXPECT_EQ(reasons["tiny_s32_tp2_pp4_b256_g3"], "3 ranks cannot be tp 2 x pp 4");
  EXPECT_EQ(reasons["tiny_s32_tp2_pp4_b256_g4"], "4 ranks cannot be tp 2 x pp 4");
  EXPECT_EQ(reasons["tiny_s32_tp2_pp1_b256_g3"], "3 ranks cannot be tp 2 x pp 1");
  EXPECT_EQ(reasons["tiny_s32_tp2_pp1_b256_g4"], "");
  EXPECT_EQ(reasons["tiny_s512_tp2_pp1_b256_g4"], "256 tokens are less than one sequence of 512");
  // Their rows have the requested number of ranks, and no command, because it would run something
  // else.
  for (const PlannedPoint& p : plan_points(points_of(flags))) {
    const RunRecord made = record_for(p, {});
    const RunRecord r = parse_record(record_text(made), p.point.label);
    EXPECT_TRUE(p.point.label.ends_with(fmt::format("_g{}", r.devices()))) << p.point.label;
    EXPECT_EQ(command_line(r).empty(), !p.point.reason.empty()) << p.point.label;
  }

  SweepFlags batch;
  batch.models = {"tiny"};
  batch.sequences = {5, 5};
  batch.batches = {8, 8};  // 8 sequences
  batch.accumulations = {3, 5};
  const auto planned = plan_points(points_of(batch));
  ASSERT_EQ(planned.size(), 2u);
  EXPECT_EQ(planned[0].config.micro_batch, 3);
  EXPECT_EQ(planned[1].reason, "8 sequences cannot be 5 micro-batches on each of 1 replica");
}

// Directories are named after the beginning and the end of a long label: either may be its own.
TEST(SweepPlan, PointsWithLongLabelsHaveTheirOwnPlaces) {
  const auto points = parse(
      "base: tiny\ngrid: {activation_checkpointing: [selective, full], train.lr: [0.00012345678], "
      "train.min_lr: [0.00001234567], train.weight_decay: [0.1000000001], seed: [1234567890123], "
      "memory_limit: [12345678901234], parallel.dp: [1, 2]}\n");
  std::set<std::string> ids;
  for (const PlannedPoint& p : plan_points(points)) {
    EXPECT_GT(p.point.label.size(), 100u) << p.reason;
    EXPECT_TRUE(is_safe_name(p.id)) << p.id;
    ids.insert(p.id);
  }
  EXPECT_EQ(ids.size(), 4u);
}

TEST(SweepSpec, FlagsThatContradictEachOtherAreRefused) {
  SweepFlags ranks;
  ranks.models = {"tiny"};
  ranks.ranks = {2};
  ranks.dp = {4};
  EXPECT_ERROR(points_of(ranks), ExitCode::usage, "-g 2 with --dp 4");
  ranks.ranks = {4};
  EXPECT_EQ(points_of(ranks).size(), 1u);
  SweepFlags batch;
  batch.models = {"tiny"};
  batch.micro_batches = {"2"};
  batch.accumulations = {3};
  batch.batches = {8, 8};
  EXPECT_ERROR(points_of(batch), ExitCode::usage, "--accum");
  batch.batches.clear();
  EXPECT_EQ(points_of(batch).size(), 1u);
  batch.micro_batches = {"2", "auto"};
  EXPECT_ERROR(points_of(batch), ExitCode::usage, "auto");
}

TEST(SweepPlan, RejectedPointsSayWhyAndDuplicatesVanish) {
  const auto planned =
      plan_points(parse("base: tiny\npoints: [{name: good}, {name: again}, {name: heads, "
                        "parallel.tp: 3, train.lr: 0},\n"
                        "  {name: big, memory_limit: 1KiB},\n"
                        "  {name: auto, memory_limit: 1KiB, micro_batch: auto}]\n"));
  ASSERT_EQ(planned.size(), 4u);
  EXPECT_EQ(planned[3].status, RunStatus::oom);
  EXPECT_GT(planned[3].memory.predicted_total, 0);  // of the smallest micro-batch
  EXPECT_TRUE(planned[0].reason.empty());
  EXPECT_GT(planned[0].memory.predicted_rank, 0);
  EXPECT_EQ(planned[1].status, RunStatus::rejected);
  EXPECT_NE(planned[1].reason.find("heads"), std::string::npos);
  EXPECT_EQ(planned[1].memory.predicted_rank, 0);
  EXPECT_EQ(planned[2].status, RunStatus::oom);
  EXPECT_EQ(planned[2].memory.predicted_rank, planned[0].memory.predicted_rank);
  EXPECT_ERROR(plan_points(parse("base: tiny\ngrid: {modle: 1}")), ExitCode::bad_config, "modle");
  for (const PlannedPoint& p : planned)
    EXPECT_EQ(p.reason.find_first_of("\n\t"), std::string::npos);
  EXPECT_EQ(planned[1].reason.find("  "), std::string::npos);
  // Several problems, each with its fix, are told apart.
  EXPECT_NE(planned[1].reason.find("; fix: use 1, 2 or 4; "), std::string::npos)
      << planned[1].reason;
  EXPECT_EQ(planned[1].reason.find(") fix:"), std::string::npos) << planned[1].reason;
}

// One data-parallel rank has nothing to shard: three stages would be the same run three times.
TEST(SweepPlan, ZeroOfOneReplicaIsMeasuredOnce) {
  SweepFlags flags;
  flags.models = {"tiny"};
  flags.tp = {1, 2, 4};
  flags.pp = {1, 2};
  flags.zero = {3, 0, 1};
  flags.ranks = {2};
  const auto planned = plan_points(points_of(flags));
  EXPECT_EQ(planned.size(), 15u);  // of 18: what cannot be cut has its row whatever the stage
  std::set<std::string> runs;
  for (const PlannedPoint& p : planned) {
    if (!p.reason.empty()) continue;
    runs.insert(p.point.label);
    EXPECT_EQ(p.config.parallel.zero, zero_in_effect(p.config))
        << p.point.label;  // what tables say
    EXPECT_EQ(load_config(p.point.words).config.parallel.zero, p.config.parallel.zero);
  }
  EXPECT_EQ(runs, (std::set<std::string>{"tiny_tp1_pp1_zero0_g2", "tiny_tp1_pp1_zero1_g2",
                                         "tiny_tp1_pp1_zero3_g2", "tiny_tp1_pp2_zero0_g2",
                                         "tiny_tp2_pp1_zero3_g2"}));
}

// Whatever was requested, the row of a rejected point can be read again, and every table and page
// has it.
TEST(SweepPlan, RejectedPointsAreRowsThatCanBeRead) {
  const auto planned = plan_points(parse(
      "base: tiny\npoints: [{micro_batch: 0}, {micro_batch: -2}, {micro_batch: "
      "9000000000000000000},"
      "  {global_batch: 0}, {seq_len: 0}, {model.heads: 0}, {model.layers: 0}, {model.hidden: 0},"
      "  {parallel.dp: 0}, {parallel.tp: -3}, {parallel.pp: 9000000000000000000},"
      "  {parallel.interleave: 0}, {seq_len: 9000000000000000000, model.vocab: "
      "9000000000000000000}]"));
  ASSERT_EQ(planned.size(), 13u);
  std::vector<RunRecord> rows;
  for (const PlannedPoint& p : planned) {
    EXPECT_EQ(p.status, RunStatus::rejected) << p.id;
    RunRecord r = record_for(p, SweepOptions{});
    r.status = p.status;
    r.reason = p.reason;
    EXPECT_NO_THROW(rows.push_back(parse_record(record_text(r), "r"))) << p.reason;
  }
  EXPECT_EQ(without_repeats(rows).size(), rows.size());
  for (const char* style : {"mpt", "mosaicgpt", "bloom", "fugaku", "predicted", "full"}) {
    EXPECT_EQ(make_table(style_from_name(style), rows).rows.size(), rows.size()) << style;
  }
  EXPECT_NE(report_page(rows, "title", "n0"), "");
}

TEST(SweepPlan, WhatStartsTheRanksIsPartOfAPoint) {
  const auto points = parse("base: tiny\npoints: [{name: one}, {name: dp2, parallel.dp: 2}]\n");
  const auto threads = plan_points(points), processes = plan_points(points, "", "mpirun");
  EXPECT_EQ(processes[0].id, threads[0].id);  // one rank needs no launcher
  EXPECT_EQ(processes[1].id, threads[1].id + "-mpirun");
}

// A program that stands for `stretto bench`: acts by its label, notes each start and each end.
class SweepRun : public ::testing::Test {
 protected:
  SweepRun() {
    dir_.write("sample.json", record_text(sample_record()));
    program_ = dir_.write(
        "program",
        "#!/bin/sh\n"
        "here=$(dirname \"$0\")\n"
        "while [ $# -gt 0 ]; do case \"$1\" in --out) out=$2;; --label) label=$2;; "
        "esac; shift; done\n"
        "echo \"$label\" >> \"$here/started\"\n"
        "echo says $label\n"
        "case $label in\n"
        "  crash) kill -SEGV $$;; killed) kill -9 $$;; hang) sleep 60;;\n"
        "  oom) exit 80;; rank) exit 81;; odd) exit 3;; stop) exit 75;; slow*) sleep 0.1;;\n"
        "  shell) exit 137;; diverged) exit 79;;\n"
        "  told) echo 'stretto: no room left'; echo '  fix: make some'; exit 74;;\n"
        "esac\n"
        "cp \"$here/sample.json\" \"$out.tmp\" && mv \"$out.tmp\" \"$out\"\n"
        "echo \"$label\" >> \"$here/ended\"\n");
    chmod(program_.c_str(), 0755);
    options_.directory = dir_ / "sweep";
    options_.program = program_;
    options_.timeout = 20;
    options_.seconds = 1;
    std::filesystem::create_directories(dir_ / "sweep/points");
    dir_.write("sweep/machine.json", "{}");
  }

  static PlannedPoint point(const std::string& label) {
    PlannedPoint p;
    p.point.label = label;
    p.id = label + "-0";
    p.config = sample_record().config;
    return p;
  }
  std::map<std::string, int> counts(const char* file) const {
    std::map<std::string, int> out;
    std::ifstream in(dir_ / file);
    for (std::string line; std::getline(in, line);) ++out[line];
    return out;
  }

  TempDir dir_;
  std::string program_;
  SweepOptions options_;
};

TEST_F(SweepRun, EveryEndBecomesARow) {
  const std::pair<const char*, RunStatus> expected[] = {
      {"crash", RunStatus::fail},       {"killed", RunStatus::killed},
      {"hang", RunStatus::timeout},     {"oom", RunStatus::oom},
      {"rank", RunStatus::killed},      {"odd", RunStatus::fail},
      {"stop", RunStatus::stopped},     {"shell", RunStatus::killed},
      {"diverged", RunStatus::diverged}};
  for (const auto& [label, status] : expected) {
    options_.timeout = status == RunStatus::timeout ? 2 : 50;
    const PointResult result = run_point(point(label), options_);
    EXPECT_EQ(result.outcome, PointOutcome::ran);
    EXPECT_EQ(result.record.status, status) << label;
    EXPECT_FALSE(result.record.reason.empty()) << label;
    EXPECT_EQ(result.record.log_tail, fmt::format("says {}\n", label));
    const RunRecord stored = read_record(posix_fs(), record_path(options_.directory, point(label)));
    EXPECT_EQ(stored.status, status);
  }
  EXPECT_EQ(run_point(point("told"), options_).record.reason,
            "ended with exit code 74 and no record: no room left");
  // A launcher's shell reports a rank that the system killed for memory as 128 + 9.
  EXPECT_EQ(run_point(point("shell"), options_).record.reason,
            "a rank died or was killed (exit code 137)");
  PlannedPoint own_limit = point("hang");
  own_limit.id = "hang-1";
  own_limit.point.timeout = 0.2;
  EXPECT_EQ(run_point(own_limit, options_).record.status, RunStatus::timeout);
  EXPECT_EQ(run_point(point("fine"), options_).record.status, RunStatus::ok);
  PlannedPoint rejected = point("rejected");
  rejected.reason = "no";
  rejected.status = RunStatus::rejected;
  EXPECT_EQ(run_point(rejected, options_).record.status, RunStatus::rejected);
  EXPECT_EQ(counts("started").count("rejected"), 0u);
}

TEST_F(SweepRun, FinishedPointsAreNotRunAgainUnlessAskedTo) {
  run_point(point("fine"), options_);
  run_point(point("oom"), options_);
  EXPECT_EQ(run_point(point("fine"), options_).outcome, PointOutcome::already_finished);
  EXPECT_EQ(run_point(point("oom"), options_).outcome, PointOutcome::already_finished);
  options_.retry = true;
  EXPECT_EQ(run_point(point("fine"), options_).outcome, PointOutcome::already_finished);
  EXPECT_EQ(run_point(point("oom"), options_).outcome, PointOutcome::ran);
  EXPECT_EQ(counts("started")["fine"], 1);
  EXPECT_EQ(counts("started")["oom"], 2);
}

TEST_F(SweepRun, PointsWithFewerStepsThanAskedForRunAgain) {
  run_point(point("fine"), options_);
  run_point(point("oom"), options_);
  options_.steps = 4;  // the record has more
  EXPECT_EQ(run_point(point("fine"), options_).outcome, PointOutcome::already_finished);
  options_.steps = 13;
  EXPECT_EQ(run_point(point("fine"), options_).outcome, PointOutcome::ran);
  EXPECT_EQ(run_point(point("oom"), options_).outcome, PointOutcome::already_finished);
  options_.steps = 12;
  options_.seconds = 5;
  EXPECT_FALSE(finished_record(point("fine"), options_));
  EXPECT_NO_THROW(read_record(posix_fs(), dir_ / "sweep/points/fine-0/before.json"));
  EXPECT_EQ(counts("started")["fine"], 2);
  EXPECT_EQ(counts("started")["oom"], 1);
}

// A user may stop the run of a single point; the sweep continues, and the next one repeats the
// point.
TEST_F(SweepRun, AStoppedPointRunsAgain) {
  run_point(point("stop"), options_);
  EXPECT_TRUE(would_run(point("stop"), options_));
  EXPECT_EQ(run_point(point("stop"), options_).outcome, PointOutcome::ran);
  EXPECT_NO_THROW(read_record(posix_fs(), dir_ / "sweep/points/stop-0/before.json"));
  EXPECT_EQ(counts("started")["stop"], 2);
}

TEST_F(SweepRun, ADamagedRecordIsSetAsideAndItsPointRunsAgain) {
  run_point(point("fine"), options_);
  const std::string path = dir_.write("sweep/points/fine-0/record.json", "{\"schema\": 1, \"st");
  EXPECT_TRUE(would_run(point("fine"), options_));
  EXPECT_TRUE(std::filesystem::exists(path));  // looking changes nothing
  EXPECT_EQ(run_point(point("fine"), options_).outcome, PointOutcome::ran);
  EXPECT_EQ(read_record(posix_fs(), path).status, RunStatus::ok);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "sweep/points/fine-0/damaged.json"));
  dir_.write("sweep/points/fine-0/record.json", "");
  clear_for_rerun(point("fine"), options_);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SweepRun, WhatIsLeftToRunIsKnownWithoutRunningOrChangingIt) {
  EXPECT_TRUE(would_run(point("fine"), options_));
  run_point(point("fine"), options_);
  run_point(point("oom"), options_);
  EXPECT_FALSE(would_run(point("fine"), options_));
  EXPECT_FALSE(would_run(point("oom"), options_));
  options_.retry = true;
  EXPECT_FALSE(would_run(point("fine"), options_));
  EXPECT_TRUE(would_run(point("oom"), options_));
  options_.steps = 13;  // more than the record has; it stays where it is
  EXPECT_TRUE(would_run(point("fine"), options_));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "sweep/points/fine-0/record.json"));
  PlannedPoint rejected = point("rejected");
  rejected.reason = "no";
  EXPECT_FALSE(would_run(rejected, options_));
}

TEST_F(SweepRun, AMissingProgramIsARow) {
  options_.program = dir_ / "nothing";
  EXPECT_EQ(run_point(point("fine"), options_).record.status, RunStatus::fail);
}

std::vector<PlannedPoint> slow_points(int n) {
  std::vector<PlannedPoint> points;
  for (int i = 0; i < n; ++i) {
    PlannedPoint p;
    p.point.label = fmt::format("slow{}", i);
    p.id = p.point.label + "-0";
    p.config = sample_record().config;
    points.push_back(std::move(p));
  }
  return points;
}

pid_t start_sweep(const std::vector<PlannedPoint>& points, const SweepOptions& options) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (const PlannedPoint& p : points) run_point(p, options);
  _exit(0);
}

TEST_F(SweepRun, SweepsInOneDirectoryShareThePoints) {
  const auto points = slow_points(6);
  std::vector<pid_t> sweeps;
  for (int i = 0; i < 3; ++i) sweeps.push_back(start_sweep(points, options_));
  for (const pid_t pid : sweeps) waitpid(pid, nullptr, 0);
  for (const PlannedPoint& p : points) {
    EXPECT_EQ(counts("started")[p.point.label], 1) << p.point.label;
    EXPECT_NO_THROW(read_record(posix_fs(), record_path(options_.directory, p)));
  }
}

TEST_F(SweepRun, KilledAtAnyMomentItGoesOn) {
  const auto points = slow_points(4);
  const CounterRng rng(5, 5);
  for (uint64_t i = 0; i < 12; ++i) {
    const pid_t sweep = start_sweep(points, options_);
    std::this_thread::sleep_for(std::chrono::milliseconds(static_cast<int>(rng.uniform(i) * 150)));
    kill(sweep, SIGKILL);
    waitpid(sweep, nullptr, 0);
  }
  for (const PlannedPoint& p : points) {
    // The run of a killed sweep may need a moment to go; it keeps the lock until then.
    while (run_point(p, options_).outcome == PointOutcome::running_elsewhere) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_LE(counts("ended")[p.point.label], 1) << p.point.label;
    EXPECT_EQ(read_record(posix_fs(), record_path(options_.directory, p)).status, RunStatus::ok);
  }
}

}  // namespace
}  // namespace stretto
