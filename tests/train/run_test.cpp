// The loop around the steps: when it ends, saves, evaluates and prints.
#include "train/run.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <sstream>

#include "base/units.h"
#include "checkpoint/store.h"
#include "model/host_values.h"
#include "support/temp_dir.h"
#include "train/saver.h"
#include "train/training.h"

namespace stretto {
namespace {

using Steps = std::vector<int64_t>;

struct Outcome {
  std::vector<StepRecord> steps;
  ExitCode code = ExitCode::ok;
};

// Trains with gradients of NaN in the `bad` steps: before them a weight is NaN, after them it is as
// it was.
Outcome train_with_bad_steps(const Config& config, const std::set<int64_t>& bad) {
  require_valid(config);
  Outcome outcome;
  Trainer* trainer = nullptr;
  float good = 0;
  bool broken = false;
  const auto prepare = [&](int64_t step) {
    if (broken == (bad.count(step) > 0)) return;
    const Tensor weight = trainer->gpt().memory().at("weights").slice(0, 1);
    if (!broken) good = host_values(trainer->backend(), weight)[0];
    broken = !broken;
    const float value = broken ? std::numeric_limits<float>::quiet_NaN() : good;
    assign_host_values(trainer->backend(), weight, &value);
  };
  try {
    run_thread_ranks(1, [&](Comm& world) {
      RunOptions options;
      options.print = false;
      options.on_start = [&](Trainer& t) {
        trainer = &t;
        prepare(1);
      };
      options.on_step = [&](const StepRecord& record) {
        outcome.steps.push_back(record);
        prepare(record.step + 1);
      };
      run_training(config, world, options);
    });
  } catch (const Error& error) {
    outcome.code = error.code();
  }
  return outcome;
}

Config eight_steps(Precision precision = Precision::fp32) {
  Config config = tiny_config();
  config.train.steps = 8;
  config.precision = precision;
  config.train.loss_scale.initial = 256;
  return config;
}

TEST(Run, GoesOnAfterBadStepsThatAreNotTooManyInARow) {
  for (const Precision precision : {Precision::fp32, Precision::amp_fp16}) {
    Config config = eight_steps(precision);
    config.train.max_skipped = 2;
    const Outcome outcome = train_with_bad_steps(config, {2, 4, 6});
    EXPECT_EQ(outcome.code, ExitCode::ok) << name_of(precision);
    ASSERT_EQ(outcome.steps.size(), 8u);
    for (const StepRecord& step : outcome.steps) {
      const int64_t bad = std::min<int64_t>(step.step / 2, 3);
      EXPECT_EQ(step.skipped, step.step % 2 == 0 && step.step < 8) << step.step;
      EXPECT_EQ(step.skipped_total, bad) << step.step;
      EXPECT_EQ(step.nan_total, bad) << step.step;
      EXPECT_EQ(step.updates, step.step - bad) << step.step;
    }
  }
}

TEST(Run, EndsWithTheLastOfTooManyBadStepsInARow) {
  for (const Precision precision : {Precision::fp32, Precision::amp_fp16}) {
    Config config = eight_steps(precision);
    for (const int64_t most : {1, 2, 3}) {
      config.train.max_skipped = most;
      const Outcome outcome = train_with_bad_steps(config, {4, 5, 6, 7});
      EXPECT_EQ(outcome.code, ExitCode::diverged) << name_of(precision);
      EXPECT_EQ(std::ssize(outcome.steps), 3 + most) << name_of(precision);
    }
  }
}

// A scale that is still to be found is a reason to skip; without one there is none.
TEST(Run, MayEndWithABadStepOnlyWhereTheLossIsScaled) {
  EXPECT_EQ(train_with_bad_steps(eight_steps(), {8}).code, ExitCode::diverged);
  EXPECT_EQ(train_with_bad_steps(eight_steps(Precision::amp_fp16), {8}).code, ExitCode::ok);
}

TEST(Run, SavesNothingNewAfterABadStepUnlessTheLossIsScaled) {
  for (const Precision precision : {Precision::fp32, Precision::amp_fp16}) {
    const TempDir dir(Where::memory);
    Config config = eight_steps(precision);
    config.output = dir.path();
    config.checkpoint = {1, 20, 0, false};
    EXPECT_EQ(train_with_bad_steps(config, {3, 6}).code, ExitCode::ok);
    EXPECT_EQ(
        CheckpointStore(posix_fs(), checkpoint_root(config)).steps(),
        precision == Precision::fp32 ? (Steps{1, 2, 4, 5, 7, 8}) : (Steps{1, 2, 3, 4, 5, 6, 7, 8}));
  }
}

std::vector<std::string> printed_lines(const Config& config, std::vector<StepRecord>& steps) {
  testing::internal::CaptureStdout();
  run_thread_ranks(1, [&](Comm& world) {
    RunOptions options;
    options.on_step = [&](const StepRecord& record) { steps.push_back(record); };
    run_training(config, world, options);
  });
  std::istringstream text(testing::internal::GetCapturedStdout());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Every few steps, and at the end.
TEST(Run, PrintsAndEvaluatesAtItsIntervalsAndAtTheEnd) {
  const TempDir dir;
  Config config = eight_steps();
  config.data.path = dir.write("text", std::string(4000, '\7'));
  config.log.every = 3;
  config.train.eval_every = 5;
  std::vector<StepRecord> steps;
  const std::vector<std::string> lines = printed_lines(config, steps);
  ASSERT_EQ(steps.size(), 8u);
  std::vector<std::string> begins;
  for (const std::string& line : lines) begins.push_back(line.substr(0, line.find(" |")));
  EXPECT_EQ(begins, (std::vector<std::string>{"step 3/8", "eval at step 5", "step 6/8", "step 8/8",
                                              "eval at step 8"}));
}

// At the pace of the steps so far.
TEST(Run, TellsWhenItWillBeDone) {
  Config config = eight_steps();
  config.log.every = 2;
  std::vector<StepRecord> steps;
  const std::vector<std::string> lines = printed_lines(config, steps);
  ASSERT_EQ(lines.size(), 4u);
  double seconds = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    seconds += steps[i].times.total;
    if (i % 2 == 0) continue;
    const double left = seconds / static_cast<double>(i + 1) * static_cast<double>(7 - i);
    const std::string end = i == 7 ? "" : " | eta " + format_seconds(left);
    EXPECT_TRUE(lines[i / 2].ends_with(end)) << lines[i / 2] << " without" << end;
    EXPECT_EQ(lines[i / 2].find("eta") == std::string::npos, i == 7) << lines[i / 2];
  }
}

}  // namespace
}  // namespace stretto
