// The lock of a run directory; tests/cli/resume_test.cpp has two programs fight for one.
#include "train/run_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <thread>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

// As another machine holds it on a shared file system.
class HeldElsewhere {
 public:
  explicit HeldElsewhere(const TempDir& dir)
      : fd_(::open(dir.write("lock", "process 7 on elsewhere, since today\n").c_str(), O_RDWR)) {
    EXPECT_EQ(::flock(fd_, LOCK_EX | LOCK_NB), 0);
  }
  ~HeldElsewhere() { ::close(fd_); }

 private:
  int fd_;
};

TEST(RunLock, IsExclusiveAndEndsWithItsHolder) {
  const TempDir dir(Where::memory);
  const std::string run = dir / "deep/run";  // made on the way
  {
    const RunLock held(run);
    EXPECT_ERROR(RunLock{run}, ExitCode::cannot_create,
                 "in use by another run: process " + std::to_string(::getpid()) + " on ");
    EXPECT_ERROR(RunLock{run}, ExitCode::cannot_create, run);
  }
  const RunLock again(run);
  const RunLock nothing(""), nothing_too("");
}

TEST(RunLock, WaitsForMachinesThatMayBeDead) {
  const TempDir dir(Where::memory);
  std::optional<HeldElsewhere> other(dir);
  EXPECT_ERROR(RunLock(dir.path(), 0.0), ExitCode::cannot_create, "process 7 on elsewhere");
  std::jthread lease([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    other.reset();
  });
  const RunLock ours(dir.path());
  EXPECT_ERROR(RunLock{dir.path()}, ExitCode::cannot_create, std::to_string(::getpid()));
}

// While we wait, a run on another machine fails before it writes, and removes its lock. A lock on a
// file without a name would keep nobody out.
TEST(RunLock, ALockThatWasRemovedIsNone) {
  const TempDir dir(Where::memory);
  std::optional<HeldElsewhere> other(dir);
  std::jthread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    std::filesystem::remove(dir / "lock");
    other.reset();
  });
  const RunLock ours(dir.path());
  EXPECT_TRUE(std::filesystem::exists(dir / "lock"));
  EXPECT_ERROR(RunLock{dir.path()}, ExitCode::cannot_create, std::to_string(::getpid()));
}

// What is refused leaves nothing behind; what was there or came meanwhile stays.
TEST(RunLock, ARunThatFailsBeforeItWritesLeavesNothing) {
  const TempDir dir(Where::memory);
  const auto fail_in = [](const std::string& run, const std::string& written = "") {
    try {
      const RunLock held(run);
      if (!written.empty()) std::ofstream(run + "/" + written) << "x";
      throw std::runtime_error("no data");
    } catch (const std::runtime_error&) {
      return std::filesystem::exists(run);
    }
  };
  EXPECT_FALSE(fail_in(dir / "deep/run"));
  EXPECT_FALSE(fail_in(dir / "deep/run/"));
  EXPECT_EQ(dir.entries(), 0u);
  EXPECT_TRUE(fail_in(dir.path()));
  EXPECT_EQ(dir.entries(), 0u);
  EXPECT_TRUE(fail_in(dir / "run", "metrics.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(dir / "run/lock"));
  { const RunLock held(dir / "good"); }
  EXPECT_TRUE(fail_in(dir / "good"));
}

TEST(RunLock, DirectoriesThatCannotBe) {
  const TempDir dir(Where::memory);
  EXPECT_ERROR(RunLock{dir.write("file", "")}, ExitCode::cannot_create, "file");
  EXPECT_ERROR(RunLock{dir / std::string(300, 'a')}, ExitCode::cannot_create, "aaa");
  std::filesystem::create_symlink("loop", dir / "loop");
  EXPECT_ERROR(RunLock{dir / "loop"}, ExitCode::cannot_create, "loop");
  EXPECT_ERROR(RunLock{dir / "loop/run"}, ExitCode::cannot_create, "loop");
}

}  // namespace
}  // namespace stretto
