// What the kernel's texts say, and that a probe of this very machine makes sense.
#include "machine/machine.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "machine/fma.h"
#include "machine/system_text.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace stretto {
namespace {

TEST(SystemText, CpuinfoCountsCoresNotThreads) {
  std::string text;
  for (int i = 0; i < 8; ++i) {  // two sockets, two cores each, two threads per core
    text += "processor\t: " + std::to_string(i) +
            "\nmodel name\t: Some CPU @ 2.80GHz\nphysical id\t: " + std::to_string(i / 4) +
            "\ncore id\t\t: " + std::to_string(i % 2) + "\nflags\t\t: fpu avx2 fma\n\n";
  }
  const CpuText cpu = read_cpuinfo(text);
  EXPECT_EQ(cpu.logical, 8);
  EXPECT_EQ(cpu.cores, 4);
  EXPECT_EQ(cpu.sockets, 2);
  EXPECT_EQ(cpu.model, "Some CPU @ 2.80GHz");
  EXPECT_EQ(cpu.flags, (std::vector<std::string>{"fpu", "avx2", "fma"}));
}

TEST(SystemText, ArmHasNoCoreIds) {
  const CpuText cpu = read_cpuinfo("processor : 0\nFeatures : asimd sve\n\nprocessor : 1\n");
  EXPECT_EQ(cpu.logical, 2);
  EXPECT_EQ(cpu.cores, 2);
  EXPECT_EQ(cpu.flags.size(), 2u);
  EXPECT_EQ(read_cpuinfo("").logical, 0);
}

TEST(SystemText, SmallFormats) {
  EXPECT_EQ(read_meminfo("MemTotal:  24 kB\nMemAvailable: 7 kB\n", "MemAvailable"), 7 * 1024);
  EXPECT_FALSE(read_meminfo("MemTotal: much\n", "MemTotal").has_value());
  EXPECT_EQ(read_cache_size("48K\n"), 48 << 10);
  EXPECT_EQ(read_cache_size("32M"), 32 << 20);
  EXPECT_FALSE(read_cache_size("max").has_value());
  EXPECT_EQ(count_cpu_list("0-3,8\n"), 5);
  EXPECT_EQ(count_cpu_list(""), 0);
  EXPECT_DOUBLE_EQ(read_cpu_max("150000 100000\n").value(), 1.5);
  EXPECT_FALSE(read_cpu_max("max 100000").has_value());
  EXPECT_EQ(read_os_release("ID=x\nPRETTY_NAME=\"A B 1\"\n"), "A B 1");
}

TEST(Machine, LookingIsEnoughForARecord) {
  const MachineInfo machine = probe_machine(false);
  EXPECT_GE(machine.cpu.usable, 1);
  EXPECT_GE(machine.cpu.logical, machine.cpu.usable);
  EXPECT_GT(machine.memory.total, 0);
  EXPECT_FALSE(machine.rates.has_value());
  EXPECT_FALSE(machine.disk.write_bytes_per_second.has_value());
  const auto json = to_json(machine);
  EXPECT_EQ(json["cpu"]["logical"], machine.cpu.logical);
  EXPECT_FALSE(json.contains("measured"));
}

TEST(Machine, MultiplyAddsCountTheirWork) {
  float sink = 1;
  const double once = fma_rounds(1000, &sink);
  EXPECT_DOUBLE_EQ(fma_rounds(2000, &sink), 2 * once);
  EXPECT_NEAR(sink / (sink + 1e-9f), 1.0, 1e-3);  // a finite value came out
  EXPECT_STRNE(fma_target(), "");
}

TEST(Machine, TheDiskTestLeavesNothingBehind) {
  const TempDir dir;
  EXPECT_GT(measure_disk_write(dir.path()), 0);
  EXPECT_EQ(dir.entries(), 0u);
  EXPECT_ERROR(measure_disk_write(dir / "nowhere"), ExitCode::cannot_create, "nowhere");
}

}  // namespace
}  // namespace stretto
