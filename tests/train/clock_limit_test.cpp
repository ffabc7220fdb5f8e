// Against a stand-in for nvidia-smi that writes down what it is asked.
#include "train/clock_limit.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

class ClockLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string script =
        "#!/bin/sh\necho \"$@\" >> '" + (dir_ / "log") + "'\n[ ! -e '" + (dir_ / "refuse") +
        "' ] || { echo 'Insufficient Permissions'; echo 'Terminating.'; exit 4; }\n";
    namespace fs = std::filesystem;
    fs::permissions(dir_.write("nvidia-smi", script), fs::perms::owner_all);
    path_ = std::getenv("PATH");
    setenv("PATH", (dir_.path() + ":" + path_).c_str(), 1);
  }
  void TearDown() override { setenv("PATH", path_.c_str(), 1); }

  std::string asked() const {
    std::stringstream text;
    text << std::ifstream(dir_ / "log").rdbuf();
    return text.str();
  }

  TempDir dir_;
  std::string path_;
};

TEST_F(ClockLimitTest, IsSetAndLifted) {
  {
    ClockLimit limit("0000:01:00.0");
    EXPECT_EQ(asked(), "");
    limit.set(1500);
    EXPECT_EQ(asked(), "-i 0000:01:00.0 -lgc 210,1500\n");
    limit.set(1455);
  }
  EXPECT_EQ(asked(),
            "-i 0000:01:00.0 -lgc 210,1500\n-i 0000:01:00.0 -lgc 210,1455\n"
            "-i 0000:01:00.0 -rgc\n");
}

TEST_F(ClockLimitTest, LeavesAloneWhatItDidNotSet) {
  { ClockLimit limit("gpu"); }
  EXPECT_EQ(asked(), "");
  {
    ClockLimit limit("gpu");
    limit.set(1500);
    limit.set(0);
  }
  EXPECT_EQ(asked(), "-i gpu -lgc 210,1500\n-i gpu -rgc\n");
}

TEST_F(ClockLimitTest, SaysWhatNvidiaSmiSays) {
  dir_.write("refuse", "");
  ClockLimit limit("gpu");
  EXPECT_ERROR(limit.set(1500), ExitCode::no_permission,
               "GPU gpu: its clock cannot be held at 1500 MHz: Insufficient Permissions "
               "Terminating.");
  EXPECT_ERROR(limit.set(0), ExitCode::no_permission, "GPU gpu: its clock cannot rise again: Ins");
}

TEST_F(ClockLimitTest, IsLiftedWhenTheProcessIsKilled) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ClockLimit limit("gpu");
    limit.set(1500);
    std::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  while (asked() != "-i gpu -lgc 210,1500\n-i gpu -rgc\n") {  // or ctest ends it
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// While nvidia-smi is at work: nobody hears its answer.
TEST_F(ClockLimitTest, IsLiftedWhenTheProcessIsKilledBeforeTheAnswer) {
  const std::string script = "#!/bin/sh\necho \"$@\" >> '" + (dir_ / "log") + "'\nuntil [ -e '" +
                             (dir_ / "go") + "' ]; do sleep 0.01; done\n";
  dir_.write("nvidia-smi", script);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ClockLimit limit("gpu");
    limit.set(1500);
    _exit(0);
  }
  while (asked() != "-i gpu -lgc 210,1500\n") {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  dir_.write("go", "");
  while (asked() != "-i gpu -lgc 210,1500\n-i gpu -rgc\n") {  // or ctest ends it
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST_F(ClockLimitTest, NeedsNvidiaSmi) {
  std::filesystem::remove(dir_ / "nvidia-smi");
  setenv("PATH", dir_.path().c_str(), 1);
  ClockLimit limit("gpu");
  EXPECT_ERROR(limit.set(1500), ExitCode::no_permission, "not found");
}

}  // namespace
}  // namespace stretto
