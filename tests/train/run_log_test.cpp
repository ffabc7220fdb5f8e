// What a run leaves for programs: metrics.jsonl and event files tell the same, whatever happens.
#include "train/run_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/event_reader.h"
#include "support/fault_fs.h"
#include "train/log_line.h"
#include "train/training.h"

namespace stretto {
namespace {

using nlohmann::json;
using test::Curves;
using test::FaultFs;

Config logged_config(const TempDir& dir) {
  Config config = tiny_config();
  config.model.vocab = 256;
  config.data.path = dir.write("text", std::string(4096, 'a') + std::string(4096, 'b'));
  config.train.eval_every = 2;
  config.train.eval_batches = 1;
  config.output = dir / "run";
  config.log.tensorboard = true;
  return config;
}

// Fails at `broken_off` as a process that ends there does: nothing is saved.
void run(const Config& config, FaultFs* fs = nullptr, int64_t broken_off = -1) {
  require_valid(config);
  run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
    RunOptions options;
    options.print = false;
    options.fs = fs;
    options.on_step = [&](const StepRecord& record) {
      if (record.step == broken_off) throw std::runtime_error("broken off");
    };
    run_training(config, world, options);
  });
}

std::vector<json> lines_of(const Config& config) {
  std::vector<json> lines;
  std::istringstream in(content_of(config.output + "/metrics.jsonl"));
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

// The curves that metrics.jsonl would draw.
Curves expected_curves(const Config& config) {
  constexpr std::pair<const char*, const char*> kFields[] = {
      {"loss", "lm loss"},
      {"learning_rate", "learning-rate"},
      {"global_batch", "batch-size"},
      {"loss_scale", "loss-scale"},
      {"grad_norm", "grad-norm"},
      {"zeros", "num-zeros"},
      {"skipped_total", "skipped-iterations"},
      {"seconds", "iteration-time"},
      {"tokens_per_second", "tokens-per-second"},
      {"mfu", "mfu"},
      {"bubble", "bubble"},
      {"eval_loss", "lm loss validation"}};
  Curves curves;
  for (const json& line : lines_of(config)) {
    const int64_t step = line["step"];
    for (const auto& [field, tag] : kFields) {
      if (!line.contains(field)) continue;
      curves[tag].push_back({step, static_cast<float>(line[field].get<double>())});
    }
    if (line.contains("eval_loss")) {
      const double ppl = std::exp(line["eval_loss"].get<double>());
      curves["lm loss validation ppl"].push_back({step, static_cast<float>(ppl)});
    }
  }
  return curves;
}

// All curves but those that metrics.jsonl does not have in this form.
Curves read_curves(const Config& config) {
  Curves curves = test::curves_of(config.output);
  for (const char* tag : {"throughput", "mem-reserved-bytes", "power/gpu", "sm-clock/gpu"}) {
    curves.erase(tag);
  }
  return curves;
}

std::vector<int64_t> steps_of(const Curves& curves, const std::string& tag) {
  std::vector<int64_t> steps;
  for (const auto& [step, value] : curves.at(tag)) steps.push_back(step);
  return steps;
}

TEST(RunLog, CurvesAreThoseOfTheMetrics) {
  const TempDir dir(Where::memory);
  Config config = logged_config(dir);
  config.parallel.pp = 2;
  run(config);
  const Curves curves = read_curves(config);
  EXPECT_EQ(test::event_files(config.output).size(), 1u) << "one rank writes";
  EXPECT_EQ(curves, expected_curves(config));
  EXPECT_EQ(curves.count("bubble"), 1u);
  EXPECT_EQ(steps_of(curves, "lm loss"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(steps_of(curves, "lm loss validation"), (std::vector<int64_t>{2, 4, 6}));
  run(config);  // nothing to do
  EXPECT_EQ(test::event_files(config.output).size(), 1u);
}

TEST(RunLog, AThroughputIsThatOfTheMegatronLine) {
  const TempDir dir(Where::memory);
  const Config config = logged_config(dir);
  run(config);
  const Curves curves = test::curves_of(config.output);
  const std::vector<json> lines = lines_of(config);
  StepRecord record;
  record.tokens = config.global_batch * config.seq_len;
  record.times.total = lines[0]["seconds"];
  EXPECT_EQ(curves.at("throughput")[0].second,
            static_cast<float>(megatron_flops_per_rank(config, record) / 1e12));
}

// Steps behind the last save are taken again; each counts once.
TEST(RunLog, ARunThatGoesOnHasEachStepOnce) {
  const TempDir dir(Where::memory);
  Config config = logged_config(dir);
  config.checkpoint = {2, 2, 0, false};
  EXPECT_THROW(run(config, nullptr, 1), std::runtime_error);  // before the first save
  EXPECT_THROW(run(config, nullptr, 3), std::runtime_error);  // goes back to step 2
  config.train.steps = 5;
  run(config);
  config.train.steps = 6;
  run(config);
  EXPECT_EQ(test::event_files(config.output).size(), 4u);
  const Curves curves = read_curves(config);
  EXPECT_EQ(curves, expected_curves(config));
  EXPECT_EQ(steps_of(curves, "lm loss"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(RunLog, AFullDiskDoesNotEndTheRun) {
  const TempDir dir(Where::memory);
  const Config config = logged_config(dir);
  FaultFs fs(posix_fs());
  int failed = 0;
  fs.on_operation = [&](const std::string& kind, const std::string& path) {
    const bool log = path.find("tfevents") != std::string::npos;
    if (kind == "write" && log && failed < 4) throw fs_error((++failed, ENOSPC), kind, path);
  };
  run(config, &fs);
  EXPECT_EQ(failed, 4);
  EXPECT_EQ(read_curves(config), expected_curves(config));
}

TEST(RunLog, OffByDefault) {
  const TempDir dir(Where::memory);
  Config config = logged_config(dir);
  config.log = {};
  run(config);
  EXPECT_TRUE(test::event_files(config.output).empty());
}

}  // namespace
}  // namespace stretto
