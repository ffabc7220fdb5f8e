// After a restart the file has every step once, whatever the run before left in it.
#include "train/metrics_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

using test::FaultFs;

constexpr const char* kThreeSteps =
    "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n{\"step\":2,\"eval_loss\":2}\n"
    "{\"step\":10,\"loss\":1}\n";

std::string after(const std::string& before, int64_t step) {
  const TempDir dir(Where::memory);
  dir.write("metrics.jsonl", before);
  MetricsFile(posix_fs(), dir.path(), step).write("{\"step\":99}");
  return content_of(dir / "metrics.jsonl");
}

TEST(MetricsFile, StepsThatAreTakenAgainGo) {
  const std::string all = kThreeSteps, end = "{\"step\":99}\n";
  const size_t first = all.find('\n') + 1, second = all.find("{\"step\":10");
  EXPECT_EQ(after(all, 10), all + end);
  EXPECT_EQ(after(all, 9), all.substr(0, second) + end) << "9 comes before 10";
  EXPECT_EQ(after(all, 2), all.substr(0, second) + end);
  EXPECT_EQ(after(all, 1), all.substr(0, first) + end);
  EXPECT_EQ(after(all, 0), end);
  EXPECT_EQ(after("", 5), end);
}

TEST(MetricsFile, AnUnfinishedLineGoes) {
  const std::string all = kThreeSteps;
  const size_t last = all.find("{\"step\":10");
  for (size_t cut = last; cut < all.size(); ++cut) {
    EXPECT_EQ(after(all.substr(0, cut), 10), all.substr(0, last) + "{\"step\":99}\n") << cut;
  }
}

TEST(MetricsFile, LinesBehindADamagedOneStay) {
  const std::string all = kThreeSteps, end = "{\"step\":99}\n";
  const size_t second = all.find("{\"step\":2"), last = all.find("{\"step\":10");
  for (const size_t at : {second, second + 3, all.find('\n', second) - 1}) {
    std::string damaged = all;
    damaged[at] ^= 0x10;
    EXPECT_EQ(after(damaged, 2), damaged.substr(0, last) + end) << at;
    EXPECT_EQ(after(damaged, 10), damaged + end) << at;
    EXPECT_EQ(after(damaged, 1), all.substr(0, second) + end) << at;
  }
}

TEST(MetricsFile, WhatIsNotOursIsLeftAlone) {
  const TempDir dir(Where::memory);
  dir.write("metrics.jsonl", "my notes\n");
  EXPECT_ERROR(MetricsFile(posix_fs(), dir.path(), 0), ExitCode::cannot_create, "something other");
  EXPECT_EQ(content_of(dir / "metrics.jsonl"), "my notes\n");
  dir.write("metrics.jsonl", "my only results: 42");  // no line that we began
  EXPECT_ERROR(MetricsFile(posix_fs(), dir.path(), 0), ExitCode::cannot_create, "something other");
  EXPECT_EQ(content_of(dir / "metrics.jsonl"), "my only results: 42");
  for (const char* torn : {"{", "{\"ste", "{\"step\":1,\"lo"}) {
    EXPECT_EQ(after(torn, 0), "{\"step\":99}\n") << torn;
  }
  ASSERT_EQ(std::rename((dir / "metrics.jsonl").c_str(), (dir / "notes").c_str()), 0);
  ASSERT_EQ(mkfifo((dir / "metrics.jsonl").c_str(), 0600), 0);  // opening it would wait for ever
  EXPECT_ERROR(MetricsFile(posix_fs(), dir.path(), 0), ExitCode::cannot_create,
               "not a regular file");
}

// The disk is full for a while, and takes a part of a line before it says so.
TEST(MetricsFile, WhatCannotBeWrittenWaits) {
  const TempDir dir(Where::memory);
  FaultFs fs(posix_fs());
  MetricsFile metrics(fs, dir.path(), 0);
  metrics.write("{\"step\":1}");
  fs.fail_kind = "write";
  fs.error_number = ENOSPC;
  fs.fail_at = 0;
  fs.fail_from_then_on = true;
  metrics.write("{\"step\":2}");
  metrics.write("{\"step\":3}");
  metrics.sync();
  EXPECT_EQ(content_of(dir / "metrics.jsonl"), "{\"step\":1}\n");
  fs.torn_write = true;
  metrics.write("{\"step\":4}");
  EXPECT_EQ(content_of(dir / "metrics.jsonl").size(), 11u + 33u / 2);
  fs.error_number = 0;
  metrics.write("{\"step\":5}");
  EXPECT_EQ(content_of(dir / "metrics.jsonl"),
            "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n{\"step\":5}\n");
}

// There may be room again when a run ends, although nothing more is written.
TEST(MetricsFile, WhatWaitsIsTriedOnceMoreAtTheEnd) {
  const TempDir dir(Where::memory);
  FaultFs fs(posix_fs());
  {
    MetricsFile metrics(fs, dir.path(), 0);
    fs.fail_kind = "write";
    fs.error_number = ENOSPC;
    fs.fail_at = 0;
    fs.fail_from_then_on = true;
    metrics.write("{\"step\":1}");
    metrics.sync();
    EXPECT_EQ(content_of(dir / "metrics.jsonl"), "");
    fs.error_number = 0;
  }
  EXPECT_EQ(content_of(dir / "metrics.jsonl"), "{\"step\":1}\n");
}

TEST(MetricsFile, NoDirectoryNoFile) {
  MetricsFile(posix_fs(), "", 0).write("{}");
  const TempDir dir(Where::memory);
  EXPECT_ERROR(MetricsFile(posix_fs(), dir.write("file", ""), 0), ExitCode::cannot_create,
               "metrics.jsonl");
}

}  // namespace
}  // namespace stretto
