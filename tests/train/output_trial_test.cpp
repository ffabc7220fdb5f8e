// What would stop the first save is found before the first step.
#include "train/output_trial.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/host.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "training.h"

namespace stretto {
namespace {

using test::FaultFs;

Config saving(const TempDir& dir, int64_t ranks) {
  Config config = tiny_config();
  config.parallel.dp = ranks;
  config.train.steps = 2;
  config.train.warmup = 0;
  config.output = dir / "run";
  return config;
}

void expect_no_step(const Config& config, ExitCode code, const std::string& part,
                    Fs& fs = posix_fs(), const std::string& other_output = "") {
  const auto each = [&](Comm& world) {
    Config own = config;
    if (world.rank() == 1 && !other_output.empty()) own.output = other_output;
    RunOptions options;
    options.print = false;
    options.fs = &fs;
    options.on_step = [](const StepRecord&) { FAIL() << "a step was taken"; };
    run_training(own, world, options);
  };
  EXPECT_ERROR(run_thread_ranks(static_cast<int>(config.world_size()), each), code, part);
}

TEST(OutputTrial, AFileInPlaceOfTheDirectory) {
  for (const int64_t ranks : {1, 2}) {
    const TempDir dir;
    const Config config = saving(dir, ranks);
    std::filesystem::create_directory(config.output);
    dir.write("run/checkpoints", "");
    expect_no_step(config, ExitCode::cannot_create, "checkpoints: Not a directory");
  }
}

// Root may do everything, so the file system refuses.
TEST(OutputTrial, MissingRightsNameTheRankAndItsMachine) {
  const TempDir dir;
  const Config config = saving(dir, 2);
  FaultFs fs(posix_fs());
  fs.error_number = EACCES;
  fs.fail_at = 0;
  for (const char* kind : {"make_dir", "create", "remove"}) {
    fs.fail_kind = kind;
    fs.matching = 0;
    expect_no_step(config, ExitCode::no_permission, "(" + host_name() + ") cannot ", fs);
    EXPECT_FALSE(std::filesystem::exists(config.output)) << kind;
  }
}

TEST(OutputTrial, ADirectoryThatRanksDoNotShare) {
  const TempDir dir;
  const Config config = saving(dir, 2);
  std::filesystem::create_directory(dir / "other");
  for (const char* other : {"other", "none"}) {
    expect_no_step(config, ExitCode::bad_config,
                   "output= is not the same directory on all ranks: rank 0 (" + host_name() +
                       ") has made " + config.output + "/checkpoints/step-0.tmp-",
                   posix_fs(), dir / other);
    EXPECT_EQ(dir.entries(), 1u);
    EXPECT_TRUE(std::filesystem::is_empty(dir / "other"));
  }
}

// It may have room when the first save comes.
TEST(OutputTrial, AFullDiskIsNoReasonToStop) {
  for (const char* kind : {"make_dir", "create"}) {
    const TempDir dir;
    const Config config = saving(dir, 2);
    FaultFs fs(posix_fs());
    fs.error_number = ENOSPC;
    fs.fail_kind = kind;
    fs.fail_at = 0;
    int steps = 0;
    run_thread_ranks(2, [&](Comm& world) {
      RunOptions options;
      options.print = false;
      options.fs = &fs;
      if (world.rank() == 0) options.on_step = [&](const StepRecord&) { ++steps; };
      run_training(config, world, options);
    });
    EXPECT_EQ(steps, 2) << kind;
    EXPECT_EQ(posix_fs().list(config.output + "/checkpoints"), std::vector<std::string>{"step-2"});
  }
}

TEST(OutputTrial, LeavesNothing) {
  const TempDir dir;
  run_thread_ranks(2, [&](Comm& world) { try_output(world, posix_fs(), dir / "new"); });
  EXPECT_EQ(dir.entries(), 0u);
  std::filesystem::create_directories(dir / "old/step-4");
  run_thread_ranks(2, [&](Comm& world) { try_output(world, posix_fs(), dir / "old"); });
  EXPECT_EQ(posix_fs().list(dir / "old"), std::vector<std::string>{"step-4"});
}

}  // namespace
}  // namespace stretto
