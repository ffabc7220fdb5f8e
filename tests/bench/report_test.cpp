#include "bench/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/observe.h"
#include "bench/sample_record.h"
#include "bench/tables.h"

namespace stretto {
namespace {

constexpr const char* kHostile =
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&";

nlohmann::json data_of(const std::string& page) {
  const std::string open = "id=\"data\" nonce=\"n0\">";
  const size_t from = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(Report, HostileTextIsInert) {
  RunRecord r = sample_record();
  r.label = r.reason = r.device = r.config.model.name = r.log_tail = kHostile;
  r.command = {"stretto", kHostile};
  const std::string page = report_page({r}, kHostile, "n0");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_NE(page.find("&lt;/script&gt;"), std::string::npos);
  const nlohmann::json row = data_of(page)["rows"][0];
  EXPECT_EQ(row["label"], kHostile);  // shown as text, not lost
  EXPECT_EQ(row["reason"], kHostile);
}

// Mail viewers and wikis in a sandbox run no scripts.
TEST(Report, RunsAreThereWithoutScripts) {
  RunRecord slow = sample_record(), fast = slow, failed = slow;
  slow.label = "slow";
  fast.label = "fast";
  for (StepSample& step : fast.steps) step.seconds /= 2;
  fast.config.parallel.dp = 2;
  fast.config.parallel.zero = 1;
  slow.memory.grown_rank = 3000;
  failed.label = "failed";
  failed.status = RunStatus::oom;
  failed.reason = "needs <3 TiB>";
  const std::string page = report_page({slow, failed, fast}, "title", "n0");
  const size_t from = page.find("<main id=\"main\">"), to = page.find("</main>");
  ASSERT_LT(from, to);
  const std::string main = page.substr(from, to - from);
  const size_t first = main.find("<td>fast</td><td>ok</td><td>tiny</td><td>dp2 tp1 pp1 zero1</td>");
  EXPECT_NE(first, std::string::npos) << main;
  EXPECT_LT(first, main.find("<td>slow</td>")) << "best first";
  EXPECT_NE(main.find("<td>0.1015</td>"), std::string::npos) << main;
  EXPECT_NE(main.find(">failed<div class=\"why\">needs &lt;3 TiB&gt;</div></td><td>OOM</td>"),
            std::string::npos)
      << main;
  EXPECT_NE(main.find("<td>2.93 KiB</td>"), std::string::npos) << main;
  EXPECT_NE(main.find("<td>1000 B (plan)</td>"), std::string::npos) << "not measured";
  EXPECT_NE(main.find(" %</td>"), std::string::npos) << main;
}

TEST(Report, OnlyOwnScriptsMayRunAndNothingIsFetched) {
  const std::string page = report_page({sample_record()}, "title", "n0");
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  for (size_t at = 0; (at = page.find("<script", at)) != std::string::npos; ++at) {
    const std::string tag = page.substr(at, page.find('>', at) - at);
    if (tag.find(' ') == std::string::npos) continue;  // a text inside a script
    EXPECT_NE(tag.find("nonce=\"n0\""), std::string::npos) << tag;
    EXPECT_EQ(tag.find("src="), std::string::npos) << tag;
  }
  EXPECT_EQ(random_nonce().size(), 32u);
  EXPECT_NE(random_nonce(), random_nonce());
}

TEST(Report, SaysWhereAllOfItsRecordsComeFrom) {
  RunRecord a = sample_record(), b = a;
  a.device = "Paper CPU";
  b.device = "Paper GPU";
  a.peak_source = "measured";
  b.peak_source = "data sheet";
  const std::string page = report_page({a, b, a}, "title", "n0");
  EXPECT_NE(page.find("Paper CPU, Paper GPU; stretto"), std::string::npos);
  EXPECT_NE(page.find("against: measured, data sheet<"), std::string::npos);
  a.peak = b.peak = 0;
  a.peak_source = b.peak_source = "unknown peak";
  EXPECT_EQ(report_page({a, b}, "title", "n0").find("unknown peak"), std::string::npos)
      << "there is no MFU to explain";
  EXPECT_NE(report_page({}, "title", "n0").find(">no records<"), std::string::npos);
}

TEST(Report, CarriesFiguresAttributionAndCommand) {
  const nlohmann::json row = data_of(report_page({sample_record()}, "title", "n0"))["rows"][0];
  EXPECT_NEAR(row["tokens"].get<double>(), 1024 / 0.102, 100);
  EXPECT_EQ(row["command"], "stretto bench tiny");
  RunRecord processes = sample_record();
  processes.launcher = "srun";
  const nlohmann::json other = data_of(report_page({processes}, "title", "n0"))["rows"][0];
  EXPECT_EQ(other["command"], "srun --ntasks=1 stretto bench tiny");
  EXPECT_DOUBLE_EQ(row["parts"]["matmul"].get<double>(), 0.05);
  EXPECT_EQ(row["losses"].size(), 13u);
}

TEST(Report, RunsThatDoNotCountHaveNoSpeedButTheirLosses) {
  RunRecord r = sample_record();
  r.status = RunStatus::fail;
  const nlohmann::json row = data_of(report_page({r}, "title", "n0"))["rows"][0];
  EXPECT_EQ(row["status"], "fail");
  for (const char* figure : {"tokens", "per_device", "seconds", "high"}) {
    EXPECT_EQ(row[figure].get<double>(), 0) << figure;
  }
  EXPECT_TRUE(row["mfu"].is_null());
  EXPECT_EQ(row["losses"].size(), 13u);
}

// The figures of `collect --style predicted`: what the known run says of the others.
TEST(Report, PredictionsAreThoseOfTheTables) {
  RunRecord one = sample_record();
  one.label = "one";
  one.config.threads = 1;
  one.machine =
      R"({"cpu": {"usable": 2}, "memory": {"total_bytes": 8e9},
          "measured": {"gemm_flops": 2e11, "triad_bytes_per_second": 2e10,
                       "message_seconds": 2e-6, "message_bytes_per_second": 1e10}})";
  one.predicted = {7, 6, 8};  // before any run told how fast this build is
  RunRecord two = one;
  two.label = "two";
  two.config.parallel.dp = two.memory.ranks_here = 2;
  const std::vector<RunRecord> records = {one, two};
  const auto forecasts = forecasts_of(records);
  const nlohmann::json rows = data_of(report_page(records, "title", "n0"))["rows"];
  const ResultTable table = make_table(TableStyle::predicted, records);
  const auto column = [&](const char* name) {
    return std::find(table.header.begin(), table.header.end(), name) - table.header.begin();
  };
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(rows[i]["known"], i == 0);
    EXPECT_DOUBLE_EQ(rows[i]["predicted"].get<double>(), forecasts[i].forecast->seconds);
    EXPECT_DOUBLE_EQ(rows[i]["memory_foreseen"].get<double>(), forecasts[i].memory);
    // The table has more devices first.
    const auto& cells = table.rows[1 - i];
    const double seconds = std::stod(cells[static_cast<size_t>(column("Sec/it predicted"))]);
    const double memory = std::stod(cells[static_cast<size_t>(column("Process predicted/rank"))]);
    EXPECT_NEAR(rows[i]["predicted"].get<double>() / seconds, 1, 1e-5);
    EXPECT_NEAR(rows[i]["memory_foreseen"].get<double>(), memory, 1);
  }
  EXPECT_GT(rows[0]["memory_foreseen"].get<double>(), rows[0]["memory_rank"].get<double>());
}

// A run that is its own known run has no prediction from others, so the page must show the one made
// before it began, as `bench` does, and not "(known)".
TEST(Report, ARunThatNoOtherIsPredictedFromShowsItsOwnPrediction) {
  RunRecord one = sample_record();
  one.machine =
      R"({"cpu": {"usable": 2}, "memory": {"total_bytes": 8e9},
          "measured": {"gemm_flops": 2e11, "triad_bytes_per_second": 2e10,
                       "message_seconds": 2e-6, "message_bytes_per_second": 1e10}})";
  one.predicted = {7, 6, 8};
  const auto row = [](const RunRecord& r) {
    return data_of(report_page({r}, "title", "n0"))["rows"][0];
  };
  EXPECT_EQ(row(one)["predicted"], 7);
  EXPECT_EQ(row(one)["known"], false);
  EXPECT_GT(row(one)["memory_foreseen"].get<double>(), row(one)["memory_rank"].get<double>());
  one.predicted = {};  // nothing was predicted
  EXPECT_EQ(row(one)["known"], true);
}

TEST(Report, ATrainingRunInPartsIsNoComparison) {
  RunRecord first = sample_record(), next = first;
  const auto continued = [&] {
    return data_of(report_page({first, next}, "title", "n0"))["continued"].get<bool>();
  };
  EXPECT_FALSE(continued());
  for (RunRecord* r : {&first, &next}) {
    r->label.clear();
    r->command = {"stretto", "train", "tiny"};
    r->config.output = "runs/a";
  }
  next.config.parallel.dp = 2;
  next.started = "2026-04-01T13:00:00Z";
  EXPECT_TRUE(continued());
  const nlohmann::json rows = data_of(report_page({first, next}, "title", "n0"))["rows"];
  EXPECT_EQ(rows[0]["label"], "part 1, 2026-04-01T12:00:00Z");
  EXPECT_EQ(rows[1]["label"], "part 2, 2026-04-01T13:00:00Z");
  const nlohmann::json found = data_of(report_page({next, first}, "title", "n0"))["rows"];
  EXPECT_EQ(found[0]["label"], "part 2, 2026-04-01T13:00:00Z")
      << "in whatever order they are found";
  next.config.output = "runs/b";
  EXPECT_FALSE(continued());
  const nlohmann::json others = data_of(report_page({first, next}, "title", "n0"))["rows"];
  EXPECT_EQ(others[0]["label"], "tiny dp1 tp1 pp1 mbs4 zero0 2026-04-01T12:00:00Z");
}

// All steps of metrics.jsonl, thinned as records are; of evaluations every one.
TEST(Report, CarriesTheCurveOfATrainingRun) {
  TrainingCurve curve;
  for (int step = 1; step <= 9000; ++step) {
    curve.steps.push_back({step, step == 4321 ? 9.0 : 4 - step / 9000.0});
    if (step % 100 == 0) curve.evaluations.push_back({step, step == 500 ? NAN : 3.1234567});
  }
  RunRecord run = sample_record();
  run.command = {"stretto", "train", "tiny"};
  const nlohmann::json data = data_of(report_page({run}, "title", "n0", curve))["training"];
  const nlohmann::json& steps = data["steps"];
  EXPECT_LE(steps.size(), 2002u);
  EXPECT_GE(steps.size(), 1000u);
  EXPECT_EQ(steps.front(), (nlohmann::json{1, 3.999889}));
  EXPECT_EQ(steps.back(), (nlohmann::json{9000, 3.0}));
  EXPECT_TRUE(std::find(steps.begin(), steps.end(), nlohmann::json{4321, 9.0}) != steps.end());
  ASSERT_EQ(data["evaluations"].size(), 90u);
  EXPECT_EQ(data["evaluations"][0], (nlohmann::json{100, 3.123457}));
  EXPECT_EQ(data["evaluations"][4], (nlohmann::json{500, nullptr}));
  EXPECT_TRUE(data_of(report_page({run}, "title", "n0"))["training"].is_null());
}

TEST(Report, CarriesTheTimelineOperatorsAndWhatSetsARowApart) {
  RunRecord r = sample_record();
  r.machine = R"({"measured":{"gemm_flops":1.6e11,"triad_bytes_per_second":2e10}})";
  r.operators[static_cast<size_t>(Op::linear_forward)] = {4, 0.01, 1e9, 1e7};
  r.timeline = {{{TaskKind::forward, 0, 0, 0, 1}}, {{TaskKind::backward, 3, 0, 1, 2}}};
  RunRecord other = r;
  other.build.commit = "another";
  other.timeline.resize(1);  // one stage is no pipeline
  const nlohmann::json rows = data_of(report_page({r, r, other}, "title", "n0"))["rows"];
  EXPECT_EQ(rows[0]["timeline"][1][0], (nlohmann::json{1, 3, 0, 1.0, 2.0}));
  EXPECT_EQ(rows[0]["ops"][0][0], "linear_forward");
  EXPECT_DOUBLE_EQ(rows[0]["bandwidth"].get<double>(), 1e10);  // half of the machine's
  EXPECT_EQ(rows[0]["apart"], "");
  r.config.device = Device::cuda;  // its memory was not measured
  const nlohmann::json gpu = data_of(report_page({r}, "title", "n0"))["rows"][0];
  EXPECT_EQ(gpu["bandwidth"].get<double>(), 0);
  EXPECT_EQ(rows[2]["apart"], "other build");
  EXPECT_FALSE(rows[2].contains("timeline"));
}

// Step 3 of a long run must be drawn above step 3 of a short one, and the spread is that of whole
// records: same steps, losses not rounded.
TEST(Report, LossesOfRunsOfDifferentLengthsMeetAtTheirSteps) {
  RunRecord shorter = sample_record(), longer = sample_record();
  const auto fill = [](RunRecord& r, int steps, double off) {
    r.steps.clear();
    for (int i = 0; i < steps; ++i) r.steps.push_back({0.1, 5 - 0.01 * i + off, false});
  };
  fill(shorter, 150, 0);
  fill(longer, 300, 3e-8);
  longer.config.micro_batch = 2;
  longer.config.parallel.dp = 2;
  longer.steps[200].loss = NAN;
  RunRecord other = shorter;  // another problem: not part of the spread
  other.config.seed = 99;
  fill(other, 150, 1);
  const nlohmann::json data = data_of(report_page({shorter, longer, other}, "title", "n0"));
  EXPECT_EQ(data["rows"][0]["losses"].size(), 150u);
  EXPECT_EQ(data["rows"][0]["losses"].back()[0], 150);
  EXPECT_EQ(data["rows"][1]["losses"].back()[0], 300);
  for (const auto& row : {data["rows"][0], data["rows"][1]}) {
    for (const auto& [step, loss] :
         row["losses"].get<std::vector<std::pair<int, nlohmann::json>>>()) {
      if (step == 201) {
        EXPECT_TRUE(loss.is_null());
      } else {
        EXPECT_NEAR(loss.get<double>(), 5 - 0.01 * (step - 1), 1e-6) << step;
      }
    }
  }
  EXPECT_EQ(data["loss_spread"]["runs"], 2);
  EXPECT_NEAR(data["loss_spread"]["most"].get<double>(), 3e-8, 1e-12);
  EXPECT_TRUE(data_of(report_page({shorter, other}, "title", "n0"))["loss_spread"].is_null());
  longer.first_step = 51;  // of a run that was continued: other steps
  const nlohmann::json later = data_of(report_page({shorter, longer}, "title", "n0"));
  EXPECT_EQ(later["rows"][1]["losses"][0][0], 51);
  EXPECT_TRUE(later["loss_spread"].is_null());
}

// Stretches of steps must be the same for all runs. Otherwise a spike of both would be visible only
// in the shorter one, of which every step is drawn.
TEST(Report, ASpikeThatRunsShareShowsInAllOfThem) {
  RunRecord shorter = sample_record(), longer = sample_record();
  const auto fill = [](RunRecord& r, int steps) {
    r.steps.assign(static_cast<size_t>(steps), {0.1, 5, false});
    for (const size_t spike : {101, 102, 150}) r.steps[spike].loss = 9;
    r.steps[120].loss = 1;
    r.steps[130].loss = NAN;
  };
  fill(shorter, 180);
  for (const int steps : {223, 5000}) {  // of 5000 not every step is drawn
    fill(longer, steps);
    const nlohmann::json rows = data_of(report_page({shorter, longer}, "title", "n0"))["rows"];
    EXPECT_LE(rows[1]["losses"].size(), 2002u);
    for (const auto& [step, loss] : {std::pair(151, 9), std::pair(121, 1)}) {
      for (const auto& row : rows) {
        const auto& shown = row["losses"];
        EXPECT_TRUE(std::find(shown.begin(), shown.end(), nlohmann::json{step, loss}) !=
                    shown.end())
            << step << " of " << row["losses"].back()[0];
      }
    }
    for (const auto& row : rows) {
      const auto& shown = row["losses"];
      const nlohmann::json gap = {131, nullptr};
      EXPECT_TRUE(std::find(shown.begin(), shown.end(), gap) != shown.end());
    }
    for (size_t i = 0; i + 2 < rows[0]["losses"].size(); ++i) {  // up to the end of the shorter
      EXPECT_EQ(rows[0]["losses"][i], rows[1]["losses"][i]);
    }
  }
}

TEST(Report, FiveHundredRowsStayBelowThreeMegabytes) {
  RunRecord r = sample_record();
  r.steps.resize(1000, {0.1, 5.123456789, false});
  for (OpTotals& op : r.operators) op = {12, 0.0123456789, 1.23456789e9, 9.87654321e7};
  r.timeline.assign(4, std::vector<RunTask>(64, {TaskKind::backward, 63, 1, 0.1234567, 0.2345678}));
  const std::string page = report_page(std::vector<RunRecord>(500, r), "title", "n0");
  EXPECT_LT(page.size(), 3u << 20);
}

}  // namespace
}  // namespace stretto
