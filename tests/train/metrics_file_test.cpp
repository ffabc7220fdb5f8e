// After a restart the file has every step once, whatever the run before left in it.
#include "train/metrics_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

constexpr const char* kThreeSteps =
    "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n{\"step\":2,\"eval_loss\":2}\n"
    "{\"step\":10,\"loss\":1}\n";

std::string after(const std::string& before, int64_t step) {
  const TempDir dir(Where::memory);
  dir.write("metrics.jsonl", before);
  MetricsFile(dir.path(), step).write("{\"step\":99}");
  std::ifstream file(dir / "metrics.jsonl");
  return {std::istreambuf_iterator<char>(file), {}};
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

TEST(MetricsFile, WhatIsNotOursIsLeftAlone) {
  const TempDir dir(Where::memory);
  dir.write("metrics.jsonl", "my notes\n");
  EXPECT_ERROR(MetricsFile(dir.path(), 0), ExitCode::cannot_create, "something else");
  std::ifstream file(dir / "metrics.jsonl");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "my notes\n");
  ASSERT_EQ(std::rename((dir / "metrics.jsonl").c_str(), (dir / "notes").c_str()), 0);
  ASSERT_EQ(mkfifo((dir / "metrics.jsonl").c_str(), 0600), 0);  // opening it would wait for ever
  EXPECT_ERROR(MetricsFile(dir.path(), 0), ExitCode::cannot_create, "no regular file");
}

TEST(MetricsFile, NoDirectoryNoFile) {
  MetricsFile("", 0).write("{}");
  const TempDir dir(Where::memory);
  EXPECT_ERROR(MetricsFile(dir.write("file", ""), 0), ExitCode::cannot_create, "metrics.jsonl");
}

}  // namespace
}  // namespace stretto
