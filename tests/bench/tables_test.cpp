#include "bench/tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "account/flops.h"
#include "account/parameters.h"
#include "base/shell_text.h"
#include "bench/published.h"
#include "bench/published_record.h"
#include "bench/safe_text.h"
#include "bench/sample_record.h"
#include "reference/source.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

TEST(Tables, NodesComeFromTheRecordAndOtherClocksAreMarked) {
  std::vector<RunRecord> records(4, sample_record());
  for (size_t i = 0; i < records.size(); ++i) {
    records[i].config.seed = i;
    records[i].machine = R"({"measured":{"fma_flops_one_core":1.00e11}})";
  }
  records[3].machine = R"({"measured":{"fma_flops_one_core":0.90e11}})";
  records[0].nodes = 40;
  for (const TableStyle style : {TableStyle::bloom, TableStyle::fugaku}) {
    const ResultTable table = make_table(style, records);
    EXPECT_EQ(table.header[0], "Nodes");
    EXPECT_EQ(table.rows[0][0], "40");
    EXPECT_EQ(table.rows[1][0], "1");
  }
  const auto apart = incomparable(records);
  EXPECT_EQ(apart[0], "");
  EXPECT_EQ(apart[3], "other clock state");
}

TEST(Tables, FullShowsPredictedBesideMeasured) {
  RunRecord r = sample_record();
  r.predicted = {0.09135, 0.08, 0.1};
  r.memory.grown_rank = 1200;
  const ResultTable table = make_table(TableStyle::full, {r});
  const auto cell = [&](const char* name) {
    const auto it = std::find(table.header.begin(), table.header.end(), name);
    return it == table.header.end() ? std::string("no such column")
                                    : table.rows[0][static_cast<size_t>(it - table.header.begin())];
  };
  EXPECT_EQ(cell("Sec/it"), "0.1015");
  EXPECT_EQ(cell("Sec/it predicted"), "0.09135");
  EXPECT_EQ(cell("Error %"), "-10.0");
  EXPECT_EQ(cell("Mem predicted/rank"), "1000");
  EXPECT_EQ(cell("Mem measured/rank"), "1200");
}

// Two decimals from where they are at least three digits; below, three digits.
TEST(Tables, SmallFiguresKeepThreeDigits) {
  for (const auto& [seconds, text] : {std::pair(0.9949, "0.995"),
                                      {0.9951, "1.00"},
                                      {0.9964, "1.00"},
                                      {12.345, "12.35"},
                                      {0.0123456, "0.0123"}}) {
    RunRecord r = sample_record();
    for (StepSample& step : r.steps) step.seconds = seconds;
    for (const TableStyle style : {TableStyle::bloom, TableStyle::fugaku}) {
      const ResultTable table = make_table(style, {r});
      const auto at = std::find(table.header.begin(), table.header.end(), "Sec/it");
      EXPECT_EQ(table.rows[0][static_cast<size_t>(at - table.header.begin())], text) << seconds;
    }
  }
}

std::vector<ReferenceRow> mpt_rows() {
  std::vector<ReferenceRow> rows;
  for (const ReferenceRow& row : load_reference()) {
    if (row.file == "mpt") rows.push_back(row);
  }
  return rows;
}

const CsvTable& mpt_csv() {
  static const ReferenceTables tables = embedded_reference();
  return tables.tables[0];
}

// The published cells of a row, from the raw columns of the reference table.
std::vector<std::string> published_cells(const CsvTable& csv, const std::vector<std::string>& row) {
  const auto cell = [&](const char* name) { return row.at(csv.column(name).value()); };
  const auto percent = [&](const char* name) {
    return fmt::format("{}", std::round(std::stod(cell(name)) * 1e4) / 1e2);
  };
  return {cell("size_label"),
          cell("seq_len"),
          cell("gpus"),
          cell("hardware"),
          percent("mfu"),
          percent("hfu"),
          cell("tflops_raw"),
          cell("micro_batch"),
          cell("grad_accum"),
          cell("global_batch"),
          cell("samples_per_sec"),
          cell("tokens_per_sec"),
          cell("tokens_per_sec_per_gpu"),
          cell("global_batch_tokens"),
          cell("precision"),
          cell("mp_mode"),
          cell("sharding"),
          cell("activation_checkpointing"),
          cell("activation_cpu_offload"),
          cell("params")};
}

TEST(MptTable, PrintsThePublishedTableAgain) {
  std::vector<RunRecord> records;
  for (const ReferenceRow& row : mpt_rows()) {
    // Through the file format, as `collect` reads them.
    records.push_back(parse_record(record_text(record_of(row)), row.id));
  }
  std::reverse(records.begin(), records.end());
  const ResultTable table = make_table(TableStyle::mpt, records);
  const CsvTable& csv = mpt_csv();
  ASSERT_EQ(csv.rows.size(), 198u);
  ASSERT_EQ(table.rows.size(), 198u);
  ASSERT_EQ(table.header.size(), 20u);
  EXPECT_EQ(table.header[6], "Model TFLOP");
  const size_t precision = csv.column("precision").value();
  int cells = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const std::vector<std::string> expected = published_cells(csv, csv.rows[i]);
    for (size_t c = 0; c < expected.size(); ++c) {
      ++cells;
      if (table.header[c] == "Model TFLOP" && csv.rows[i][precision] == "bf16") {
        // Worked out there from the MFU, which is rounded to 0.01 %.
        const double most =
            0.5e-4 * device_peak(expected[3], PeakFormat::bf16).value() / 1e14 + 1e-6;
        EXPECT_NEAR(std::stod(table.rows[i][c]), std::stod(expected[c]), most);
        continue;
      }
      EXPECT_EQ(table.rows[i][c], expected[c]) << csv.rows[i][0] << ", " << table.header[c];
    }
  }
  EXPECT_EQ(cells, 198 * 20);
}

TEST(MosaicTable, PublishedFiguresComeBack) {
  int rows = 0;
  for (const ReferenceRow& row : load_reference()) {
    if (row.file != "mosaicgpt") continue;
    const ResultTable table = make_table(TableStyle::mosaicgpt, {record_of(row)});
    EXPECT_NEAR(std::stod(table.rows[0][8]), row.mfu->value, 5.1e-5) << row.id;
    EXPECT_NEAR(std::stod(table.rows[0][5]), row.tokens_per_sec->value, 0.011) << row.id;
    EXPECT_EQ(table.rows[0][12], fmt::format("{}", *row.params)) << row.id;
    ++rows;
  }
  EXPECT_EQ(rows, 300);
}

TEST(Tables, FailuresKeepTheirRow) {
  RunRecord r = sample_record();
  r.steps.clear();
  r.warmup = 0;
  r.status = RunStatus::oom;
  r.reason = "needs 3 TiB";
  for (const char* style : {"mpt", "mosaicgpt", "bloom", "fugaku", "full"}) {
    const ResultTable table = make_table(style_from_name(style), {r});
    ASSERT_EQ(table.rows.size(), 1u);
    EXPECT_NE(table.csv().find("OOM"), std::string::npos) << style;
  }
  EXPECT_NE(make_table(TableStyle::bloom, {r}).csv().find("needs 3 TiB"), std::string::npos);
  // Memory that was not computed must not be shown as zero.
  for (const int64_t bytes : {int64_t{1000}, int64_t{0}}) {
    r.memory = {};
    r.memory.predicted_rank = r.memory.predicted_total = bytes;
    for (const char* style : {"predicted", "full"}) {
      const ResultTable table = make_table(style_from_name(style), {r});
      int told = 0;
      for (size_t c = 0; c < table.header.size(); ++c) {
        const std::string& name = table.header[c];
        if (!name.starts_with("Mem predicted") && !name.starts_with("Process")) continue;
        EXPECT_EQ(table.rows[0][c], bytes > 0 ? "1000" : "") << name;
        ++told;
      }
      EXPECT_GT(told, 0) << style;
    }
  }
  EXPECT_ERROR(style_from_name("nice"), ExitCode::usage, "nice");
}

TEST(Tables, SpeedWithoutLearningIsNoFigure) {
  RunRecord r = sample_record();
  r.status = RunStatus::fail;
  r.reason = "the loss did not fall";
  r.predicted.seconds = 0.09;
  for (const char* style : {"mpt", "mosaicgpt", "bloom", "fugaku", "predicted", "full"}) {
    const ResultTable good = make_table(style_from_name(style), {sample_record()});
    const ResultTable table = make_table(style_from_name(style), {r});
    int told = 0;
    for (size_t c = 0; c < table.header.size(); ++c) {
      const std::string& name = table.header[c];
      const bool of_time = name.starts_with("MFU") || name.starts_with("Throughput") ||
                           name == "Model TFLOP" || name == "TFLOPs" || name == "Sec/it" ||
                           name == "Error %";
      if (!of_time) continue;
      EXPECT_NE(good.rows[0][c], "fail") << style << ", " << name;
      EXPECT_EQ(table.rows[0][c], "fail") << style << ", " << name;
      ++told;
    }
    EXPECT_GE(told, 2) << style;
  }
}

// A run whose batch never reached its full size ended well, and has no figures.
TEST(Tables, RunsWithoutTimedStepsHaveNoFigures) {
  RunRecord r = sample_record();
  r.warmup = std::ssize(r.steps);
  for (const char* style : {"mpt", "mosaicgpt", "bloom", "fugaku", "predicted", "full"}) {
    const ResultTable table = make_table(style_from_name(style), {r});
    int told = 0;
    for (size_t c = 0; c < table.header.size(); ++c) {
      const bool status = table.header[c] == "Status";
      EXPECT_EQ(table.rows[0][c] == "ok", status) << style << ", " << table.header[c];
      told += table.rows[0][c] == "not timed" ? 1 : 0;
    }
    EXPECT_GE(told, 2) << style;
  }
}

TEST(Tables, StoppedRunsHaveFiguresWhereEnoughStepsWereTimed) {
  RunRecord r = sample_record();
  r.status = RunStatus::stopped;
  r.warmup = 0;
  const auto sec_per_step = [&] { return make_table(TableStyle::bloom, {r}).rows[0][8]; };
  r.steps.resize(kTimedSteps);
  EXPECT_EQ(sec_per_step(), "0.102");
  r.steps.pop_back();
  EXPECT_EQ(sec_per_step(), "stopped");
}

// Published HFU counts four thirds where the column says True, and TFLOPs 96 instead of 72.
// Checkpointing that repeats no product is shown by its own name.
TEST(Tables, OnlyFullCheckpointingIsThatOfThePublishedTables) {
  RunRecord r = sample_record();
  for (const auto& [kind, word] :
       {std::pair(Checkpointing::none, "False"), std::pair(Checkpointing::gelu, "gelu"),
        std::pair(Checkpointing::selective, "selective"), std::pair(Checkpointing::full, "True")}) {
    r.config.activation_checkpointing = kind;
    const ResultTable mpt = make_table(TableStyle::mpt, {r});
    const ResultTable fugaku = make_table(TableStyle::fugaku, {r});
    EXPECT_EQ(mpt.rows[0][17], word) << mpt.header[17];
    EXPECT_EQ(fugaku.rows[0][6], word) << fugaku.header[6];
    EXPECT_EQ(mpt.rows[0][4] == mpt.rows[0][5], kind != Checkpointing::full);
  }
}

// No published style has columns for tp and pp.
TEST(Tables, RowsThatLookAlikeAreNamed) {
  std::vector<RunRecord> records(3, sample_record());
  for (RunRecord& r : records) r.config.parallel.dp = 2;
  records[1].config.parallel = {};
  records[1].config.parallel.tp = 2;
  records[1].label.clear();
  records[2].config.seed = 99;
  const ResultTable alone = make_table(TableStyle::mpt, {records[0]});
  ASSERT_EQ(alone.header.size(), 20u);
  const ResultTable table = make_table(TableStyle::mpt, {records[0], records[1]});
  ASSERT_EQ(table.header.size(), 21u);
  EXPECT_EQ(table.header[20], "Label");
  EXPECT_TRUE(std::equal(alone.header.begin(), alone.header.end(), table.header.begin()));
  EXPECT_TRUE(std::equal(alone.rows[0].begin(), alone.rows[0].end(), table.rows[0].begin()));
  EXPECT_EQ(table.rows[0][20], "sample");
  EXPECT_EQ(table.rows[1][20], "tiny dp1 tp2 pp1 mbs4 zero0 sp");
  const ResultTable seeds = make_table(TableStyle::mpt, {records[0], records[2]});
  ASSERT_EQ(seeds.header.size(), 21u);
  EXPECT_EQ(seeds.rows[1][20], "sample seed=99");
  records[2].config.seq_len = 64;  // which has a column
  EXPECT_EQ(make_table(TableStyle::mpt, {records[0], records[2]}).header.size(), 20u);
  const ResultTable bloom = make_table(TableStyle::bloom, {records[0], records[1]});
  EXPECT_EQ(bloom.header.back(), "Notes") << "has columns for dp, tp and pp";
}

// One data-parallel rank has nothing to shard.
TEST(Tables, ZeroOfOneReplicaIsNoSharding) {
  RunRecord r = sample_record();
  r.config.parallel.zero = 3;
  const auto cell = [&](TableStyle style, const std::string& name) {
    const ResultTable table = make_table(style, {r});
    const auto at = std::find(table.header.begin(), table.header.end(), name);
    EXPECT_NE(at, table.header.end()) << name;
    return table.rows[0][static_cast<size_t>(at - table.header.begin())];
  };
  EXPECT_EQ(cell(TableStyle::mpt, "Sharding Strategy"), "NO_SHARD");
  EXPECT_EQ(cell(TableStyle::full, "ZeRO"), "0");
  r.config.parallel.dp = 2;
  EXPECT_EQ(cell(TableStyle::mpt, "Sharding Strategy"), "FULL_SHARD");
  EXPECT_EQ(cell(TableStyle::full, "ZeRO"), "3");
}

// `train` does not measure memory.
TEST(Tables, MemoryThatNobodyMeasuredIsNotZero) {
  RunRecord r = sample_record();
  for (const int64_t bytes : {int64_t{2000}, int64_t{0}}) {
    r.memory.grown_rank = r.memory.grown_total = bytes;
    const ResultTable table = make_table(TableStyle::full, {r});
    for (size_t c = 0; c < table.header.size(); ++c) {
      if (!table.header[c].starts_with("Mem measured")) continue;
      EXPECT_EQ(table.rows[0][c], bytes > 0 ? "2000" : "") << table.header[c];
    }
  }
}

TEST(Tables, MemoryOfThePlanIsCalledThat) {
  RunRecord r = sample_record();
  for (const bool measured : {true, false}) {
    r.memory.grown_rank = measured ? 3'000'000'000 : 0;
    r.memory.predicted_rank = 2'000'000'000;
    EXPECT_EQ(make_table(TableStyle::bloom, {r}).rows[0][7], measured ? "3GB" : "2GB (predicted)");
    EXPECT_EQ(make_table(TableStyle::fugaku, {r}).rows[0][7],
              measured ? "2861" : "1907 (predicted)");
  }
}

TEST(Tables, NearestPublishedRowIsTheRowItself) {
  const auto rows = load_reference();
  for (const size_t i : {size_t{0}, size_t{20}, size_t{100}, size_t{197}}) {
    const ReferenceRow* nearest = nearest_row(record_of(rows[i]), rows);
    ASSERT_NE(nearest, nullptr);
    EXPECT_EQ(nearest->id, rows[i].id);
  }
  const ResultTable table = make_table(TableStyle::mpt, {record_of(rows[0])}, &rows);
  EXPECT_EQ(table.header.size(), 24u);
}

TEST(Tables, RepeatsCollapseToTheNewestGoodRun) {
  RunRecord old = sample_record(), newer = sample_record(), broken = sample_record();
  newer.started = "2026-04-02T12:00:00Z";
  newer.label = "newer";
  broken.started = "2026-04-03T12:00:00Z";
  broken.status = RunStatus::fail;
  RunRecord other = sample_record();
  other.config.seed = 99;
  const auto kept = without_repeats({old, newer, broken, other});
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].label, "newer");
  RunRecord stopped = sample_record();
  stopped.status = RunStatus::stopped;
  stopped.warmup = 0;
  stopped.label = "stopped";
  EXPECT_EQ(without_repeats({broken, stopped}).at(0).label, "stopped") << "has figures";
  EXPECT_EQ(without_repeats({stopped, old}).at(0).label, old.label) << "ended well";
}

// The same command goes on where a run was stopped.
TEST(Tables, PartsOfATrainingRunAreNoRepeats) {
  RunRecord first = sample_record(), second = sample_record();
  first.status = RunStatus::stopped;
  second.first_step = 49;
  EXPECT_EQ(without_repeats({first, second}).size(), 2u);
  second.first_step = first.first_step;
  EXPECT_EQ(without_repeats({first, second}).size(), 1u);
}

// The configuration of a rejected point is not what its flags asked for.
TEST(Tables, RejectedPointsKeepTheirRows) {
  RunRecord three = sample_record();
  three.status = RunStatus::rejected;
  three.reason = "3 ranks cannot be tp 2 x pp 1";
  RunRecord five = three;
  five.reason = "5 ranks cannot be tp 2 x pp 1";
  EXPECT_EQ(without_repeats({three, five, sample_record(), five}).size(), 3u);
}

// A point may be rejected for its sizes: figures that would not fit into 64 bits are left out, not
// wrapped around.
TEST(Tables, RejectedSizesAreNoFigures) {
  constexpr int64_t kAbsurd = 9'000'000'000'000'000'000;
  RunRecord sound = sample_record(), wide = sound, deep = sound, long_ = sound, negative = sound;
  wide.config.model.hidden = int64_t{1} << 32;  // its square is nothing in 64 bits
  deep.config.model.layers = kAbsurd;
  long_.config.seq_len = long_.config.global_batch = kAbsurd;
  negative.config.model.vocab = -3;
  negative.config.seq_len = std::numeric_limits<int64_t>::min();
  std::vector<RunRecord> records = {sound, wide, deep, long_, negative};
  for (size_t i = 1; i < records.size(); ++i) {
    records[i].status = RunStatus::rejected;
    records[i].steps.clear();
  }
  for (size_t i = 0; i < records.size(); ++i) records[i].label = std::string("rwdln").substr(i, 1);
  const auto published = load_reference();
  const ResultTable table = make_table(TableStyle::full, records, &published);
  const auto column = [&](const char* name) {
    const auto at = std::find(table.header.begin(), table.header.end(), name);
    std::map<std::string, std::string> cells;
    for (const auto& row : table.rows) {
      cells[row[0]] = row[static_cast<size_t>(at - table.header.begin())];
    }
    return cells;
  };
  const auto parameters = column("NumParams"), tokens = column("GlobalBatchSize (T)"),
             nearest = column("Nearest published");
  for (const char* absurd : {"w", "d", "n"}) EXPECT_EQ(parameters.at(absurd), "") << absurd;
  EXPECT_EQ(parameters.at("r"), std::to_string(parameter_count(sound.config.model)));
  EXPECT_EQ(parameters.at("l"), parameters.at("r"));
  EXPECT_EQ(tokens.at("l"), "");
  EXPECT_EQ(tokens.at("n"), "");
  EXPECT_NE(tokens.at("r"), "");
  EXPECT_NE(nearest.at("r"), "");
  EXPECT_EQ(nearest.at("d"), "");
  EXPECT_EQ(nearest.at("n"), "");
  EXPECT_EQ(table.rows[0][0], "d");  // the largest model first
  EXPECT_EQ(table.rows[1][0], "w");
  EXPECT_NE(make_table(TableStyle::bloom, records).csv(), "");
}

TEST(Tables, ThreadsAndProcessesAreTwoRows) {
  RunRecord threads = sample_record(), processes = sample_record();
  processes.launcher = "mpirun";
  processes.config.parallel.dp = threads.config.parallel.dp = 2;
  processes.started = "2026-04-02T12:00:00Z";
  const auto kept = without_repeats({threads, processes, processes});
  ASSERT_EQ(kept.size(), 2u);
  const std::string csv = make_table(TableStyle::full, kept).csv();
  EXPECT_NE(csv.find(",threads,stretto bench tiny"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",mpirun,mpirun -n 2 stretto bench tiny"), std::string::npos) << csv;
}

TEST(Tables, OtherBuildsAndMachinesAreMarked) {
  std::vector<RunRecord> records(4, sample_record());
  records[1].build.commit = "another";
  records[3].device = "Another processor";
  const auto marks = incomparable(records);
  EXPECT_EQ(marks[0], "");
  EXPECT_EQ(marks[1], "other build");
  EXPECT_EQ(marks[3], "other machine");
}

TEST(SafeText, SpreadsheetsSeeNoFormula) {
  EXPECT_EQ(csv_field("=1+1"), "\"'=1+1\"");
  EXPECT_EQ(csv_field(" @SUM(A1)"), "\"' @SUM(A1)\"");
  EXPECT_EQ(csv_field("+cmd|' /C calc'!A0"), "\"'+cmd|' /C calc'!A0\"");
  for (const char* number : {"-5.25", "-1", "-1e-3", "-.5"}) EXPECT_EQ(csv_field(number), number);
  for (const char* formula : {"-1+1", "-1-", "-1 ", " -1", "-2*A1", "-x"}) {
    EXPECT_EQ(csv_field(formula), "\"'" + std::string(formula) + "\"");
  }
  EXPECT_EQ(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
  EXPECT_EQ(csv_field("\t=1"), "\"' =1\"");
}

TEST(SafeText, TerminalsSeeNoEscapes) {
  EXPECT_EQ(without_control("\x1b[31mred\x1b[0m\a"), "red");
  EXPECT_EQ(without_control("\x1b]0;title\aafter"), "after");
  EXPECT_EQ(without_control("a\x1b"), "a");
  EXPECT_EQ(without_control("a\nb\r"), "a b");
  EXPECT_EQ(without_control("a\nb", true), "a\nb");
  EXPECT_EQ(without_control("\xc2\x9b"
                            "31m"),
            "31m");
  EXPECT_EQ(without_control("\xc3\xa9"), "\xc3\xa9");
}

TEST(SafeText, MarkdownAndShell) {
  EXPECT_EQ(markdown_cell("a|b<script>"), "a\\|b&lt;script>");
  EXPECT_EQ(shell_word("parallel.tp=2"), "parallel.tp=2");
  EXPECT_EQ(shell_word("$(reboot)"), "'$(reboot)'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(one_line("one  two\n  three", 10), "one two...");
  EXPECT_EQ(one_line("\u00e9\u00e9\u00e9\u00e9", 6), "\u00e9...") << "no half letters";
  EXPECT_TRUE(is_safe_name("dp2-zero1.a"));
  for (const char* bad : {"", "..", "a..b", "a/b", "-rf", ".hidden", "a b", "a\nb"}) {
    EXPECT_FALSE(is_safe_name(bad)) << bad;
  }
}

TEST(Tables, PredictedStyleHasBothSidesOfSpeedAndMemory) {
  RunRecord r = sample_record();
  r.predicted.seconds = 0.11;
  r.memory.grown_rank = 2000;
  const ResultTable table = make_table(TableStyle::predicted, {r}, nullptr);
  ASSERT_EQ(table.rows.size(), 1u);
  const auto cell = [&](const std::string& name) {
    const auto at = std::find(table.header.begin(), table.header.end(), name);
    EXPECT_NE(at, table.header.end()) << name;
    return table.rows[0][static_cast<size_t>(at - table.header.begin())];
  };
  EXPECT_EQ(cell("Label"), "sample");
  EXPECT_FALSE(cell("Sec/it predicted").empty());
  EXPECT_EQ(cell("Sec/it"), "0.1015");
  EXPECT_GE(std::stod(cell("Process predicted/rank")),
            static_cast<double>(r.memory.predicted_rank));
  EXPECT_EQ(cell("Mem measured/rank"), std::to_string(r.memory.grown_rank));
}

}  // namespace
}  // namespace stretto
