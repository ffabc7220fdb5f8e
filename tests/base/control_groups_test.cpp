#include "base/control_groups.h"

#include <gtest/gtest.h>

#include <map>

namespace stretto {
namespace {

using Files = std::map<std::string, std::string>;

KernelFile reader_of(const Files& files) {
  return [&files](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? "" : found->second;
  };
}

std::optional<int64_t> limit_of(const std::string& groups, const Files& files) {
  return memory_limit(groups, reader_of(files));
}
std::optional<double> cores_of(const std::string& groups, const Files& files) {
  return core_limit(groups, reader_of(files));
}

TEST(MemoryLimit, OfAContainer) {
  const std::string groups = "0::/\n";
  EXPECT_EQ(limit_of(groups, {{"/sys/fs/cgroup/memory.max", "4294967296\n"}}), 4294967296);
  EXPECT_FALSE(limit_of(groups, {{"/sys/fs/cgroup/memory.max", "max\n"}}));
  EXPECT_FALSE(limit_of(groups, {}));
  EXPECT_FALSE(limit_of("", {{"/sys/fs/cgroup/memory.max", "4294967296\n"}}));
}

// The limit of a job holds for its steps and tasks.
TEST(MemoryLimit, IsTheLeastOfAllGroupsAbove) {
  const std::string job = "/sys/fs/cgroup/slurm/job_7";
  const std::string groups = "0::/slurm/job_7/step_0/task_3\n";
  EXPECT_EQ(limit_of(groups, {{job + "/memory.max", "1000000"}}), 1000000);
  EXPECT_EQ(limit_of(groups, {{job + "/memory.max", "1000000"},
                              {job + "/step_0/memory.max", "max"},
                              {job + "/step_0/task_3/memory.max", "2000000"}}),
            1000000);
  EXPECT_EQ(limit_of(groups, {{job + "/memory.max", "1000000"},
                              {job + "/step_0/task_3/memory.max", "500000"}}),
            500000);
}

TEST(MemoryLimit, OfVersionOne) {
  const std::string groups = "9:name=systemd:/\n4:cpu,memory:/docker/abc\n1:cpu:/\n0::/\n";
  const std::string file = "/memory.limit_in_bytes", none = "9223372036854771712\n";
  EXPECT_EQ(limit_of(groups, {{"/sys/fs/cgroup/memory/docker/abc" + file, "123456789\n"},
                              {"/sys/fs/cgroup/memory" + file, none}}),
            123456789);
  // In the container the path of the host is not there.
  EXPECT_EQ(limit_of(groups, {{"/sys/fs/cgroup/memory" + file, "123456789\n"}}), 123456789);
  EXPECT_FALSE(limit_of(groups, {{"/sys/fs/cgroup/memory" + file, none}}));
  EXPECT_FALSE(limit_of("4:memory_other:/\n", {{"/sys/fs/cgroup/memory" + file, "1"}}));
}

TEST(CoreLimit, OfBothVersions) {
  const Files files = {{"/sys/fs/cgroup/pod/cpu.max", "150000 100000\n"},
                       {"/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n"},
                       {"/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "400000\n"},
                       {"/sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000\n"},
                       {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                       {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(cores_of("0::/pod/box\n", files), 1.5);
  EXPECT_EQ(cores_of("3:cpu,cpuacct:/docker\n0::/\n", files), 4);
  EXPECT_FALSE(cores_of("3:cpu,cpuacct:/\n0::/\n", files));
  EXPECT_FALSE(cores_of("3:cpuset:/docker\n", files));
}

TEST(MemoryLimit, OddLinesAreLeftOut) {
  for (const char* groups : {"\n", "0", "0:", "0::", ":::", "::\n::\n", "0::relative"}) {
    EXPECT_FALSE(limit_of(groups, {})) << groups;
    EXPECT_FALSE(cores_of(groups, {})) << groups;
  }
}

}  // namespace
}  // namespace stretto
