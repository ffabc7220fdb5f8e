#include "bench/training_record.h"

#include <gtest/gtest.h>

#include "bench/sample_record.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

class TrainingRecordTest : public testing::Test {
 protected:
  TrainingRecordTest() {
    config_ = sample_record().config;
    config_.output = folder_.path();
  }
  StepRecord step(double seconds, double loss) {
    StepRecord one;
    one.step = ++step_;
    one.times.total = seconds;
    one.loss = loss;
    return one;
  }
  RunRecord kept() const {
    const std::vector<FoundRecord> found = find_records(posix_fs(), folder_.path());
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? RunRecord() : found.front().record;
  }

  TempDir folder_;
  Config config_;
  int64_t step_ = 40;  // of an earlier run, which this one continues
};

TEST_F(TrainingRecordTest, SaysWhatRanAndHowItEnded) {
  TrainingRecord record(config_, {"stretto", "train", "tiny"});
  EXPECT_EQ(folder_.entries(), 0u);  // a run that is refused leaves nothing
  record.add(step(0.5, 3));
  EXPECT_EQ(kept().status, RunStatus::killed);  // as long as nobody says more
  record.add(step(0.25, 2));
  record.end(ExitCode::ok);
  const RunRecord after = kept();
  EXPECT_EQ(after.status, RunStatus::ok);
  EXPECT_EQ(after.reason, "");
  EXPECT_EQ(after.command, (std::vector<std::string>{"stretto", "train", "tiny"}));
  EXPECT_EQ(after.timed_seconds(), (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(after.steps.back().loss, 2);
  EXPECT_EQ(after.first_step, 41);
  EXPECT_EQ(config_hash(after.config), config_hash(config_));
  EXPECT_FALSE(after.build.commit.empty());
  EXPECT_FALSE(after.machine.empty());
}

TEST_F(TrainingRecordTest, KeepsTheReasonOfAFailure) {
  TrainingRecord record(config_, {"stretto", "train"});
  record.add(step(0.5, 3));
  record.end(Error(ExitCode::diverged, "no finite gradients", "lower train.lr"));
  const RunRecord after = kept();
  EXPECT_EQ(after.status, RunStatus::diverged);
  EXPECT_EQ(after.exit_code, static_cast<int>(ExitCode::diverged));
  EXPECT_NE(after.reason.find("lower train.lr"), std::string::npos);
}

// Ctrl-C is no failure: what was timed until then is as good as any.
TEST_F(TrainingRecordTest, ARunStoppedInOrderKeepsItsFigures) {
  for (const int64_t steps : {kTimedSteps - 1, kTimedSteps}) {
    config_.output = folder_ / std::to_string(steps);
    TrainingRecord record(config_, {"stretto", "train"});
    for (int64_t i = 0; i < steps; ++i) record.add(step(0.5, 3));
    record.end(ExitCode::resumable);
    const RunRecord after = find_records(posix_fs(), config_.output).at(0).record;
    EXPECT_STREQ(name_of(after.status), "stopped");
    EXPECT_FALSE(after.failed());
    EXPECT_EQ(after.counts(), steps == kTimedSteps) << steps;
  }
}

TEST_F(TrainingRecordTest, KeepsTheLastStepsOfALongRun) {
  TrainingRecord record(config_, {"stretto", "train"});
  for (int i = 1; i <= 5000; ++i) record.add(step(i, 1));
  record.end(ExitCode::ok);
  const RunRecord after = kept();
  const std::vector<double> seconds = after.timed_seconds();
  EXPECT_GE(seconds.size(), 1000u);
  EXPECT_LE(seconds.size(), 2000u);
  EXPECT_EQ(seconds.back(), 5000);
  EXPECT_EQ(after.first_step + std::ssize(seconds) - 1, 5040);
}

// Their tokens a second would be worked out with a batch that they did not have.
TEST_F(TrainingRecordTest, StepsOfABatchThatGrowsDoNotCount) {
  config_.global_batch = 8;
  config_.train.ramp_up = {2, 2, 1000};
  TrainingRecord record(config_, {"stretto", "train"});
  const auto add = [&](double seconds, int64_t batch) {
    StepRecord one = step(seconds, 1);
    one.global_batch = batch;
    record.add(one);
  };
  for (int i = 0; i < 1500; ++i) add(0.25, 2);
  EXPECT_TRUE(kept().timed_seconds().empty());
  for (int i = 0; i < 1500; ++i) add(0.25, 4);
  add(1, 8);
  add(1, 8);
  record.end(ExitCode::ok);
  const RunRecord after = kept();
  EXPECT_EQ(after.timed_seconds(), (std::vector<double>{1, 1}));
  EXPECT_EQ(after.first_step + std::ssize(after.steps) - 1, step_);
}

TEST_F(TrainingRecordTest, SaysWhyNothingIsTimed) {
  config_.global_batch = 8;
  config_.train.ramp_up = {2, 2, 1000};
  TrainingRecord record(config_, {"stretto", "train"});
  StepRecord one = step(0.25, 1);
  one.global_batch = 4;
  record.add(one);
  record.end(ExitCode::ok);
  EXPECT_EQ(kept().status, RunStatus::ok);
  EXPECT_EQ(kept().reason, "nothing is timed: no step had the full batch of 8");
}

TEST_F(TrainingRecordTest, EachStartHasItsOwn) {
  for (int i = 0; i < 3; ++i) {
    TrainingRecord record(config_, {"stretto", "train"});
    record.add(step(0.5, 3));
    record.end(ExitCode::ok);
  }
  EXPECT_EQ(find_records(posix_fs(), folder_.path()).size(), 3u);
}

TEST_F(TrainingRecordTest, IsNotWorthARun) {
  config_.output = folder_.write("taken", "a file, where a directory should be");
  TrainingRecord record(config_, {"stretto", "train"});
  EXPECT_NO_THROW(record.add(step(0.5, 3)));
  EXPECT_NO_THROW(record.end(ExitCode::ok));
  EXPECT_EQ(folder_.entries(), 1u);
  EXPECT_THROW(write_record(posix_fs(), config_.output + "/r.json", sample_record()), Error);
}

TEST_F(TrainingRecordTest, WithoutAnOutputNothingIsKept) {
  config_.output.clear();
  TrainingRecord record(config_, {"stretto", "train"});
  record.add(step(0.5, 3));
  record.end(ExitCode::ok);
  EXPECT_EQ(folder_.entries(), 0u);
}

}  // namespace
}  // namespace stretto
