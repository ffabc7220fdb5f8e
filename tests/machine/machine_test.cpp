// What the kernel's texts say, and that a probe of this very machine makes sense.
#include "machine/machine.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/control_groups.h"
#include "base/cores.h"
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
  EXPECT_EQ(count_cpu_list("7,9-9"), 2);
  EXPECT_EQ(count_cpu_list("3-1"), 0);
  EXPECT_EQ(count_cpu_list("9-0,4-5,2-"), 2) << "ranges that are none do not count";
  EXPECT_EQ(count_cpu_list("0-2000000000,1"), 1);
  EXPECT_DOUBLE_EQ(read_cpu_max("150000 100000\n").value(), 1.5);
  EXPECT_FALSE(read_cpu_max("max 100000").has_value());
  EXPECT_EQ(read_os_release("ID=x\nPRETTY_NAME=\"A B 1\"\n"), "A B 1");
}

TEST(SystemText, BusyTicksAreThoseOfTheCoresAsked) {
  const std::string text =
      "cpu  1000 20 300 4000 50 6 7 8 0 0\n"
      "cpu0 100 2 30 4000 5 1 2 3 90 0\n"
      "cpu1 7 0 0 90 0 0 0 0 0 0\n"
      "cpu10 1000 1000 1000 0 0 0 0 0 0 0\n"
      "intr 12345 0 0\n";
  EXPECT_EQ(read_busy_ticks(text, {0}), 138);  // idle, disks and guests left out
  EXPECT_EQ(read_busy_ticks(text, {0, 1}), 145);
  EXPECT_EQ(read_busy_ticks(text, {1, 10}), 3007);
  EXPECT_EQ(read_busy_ticks(text, {2}), std::nullopt);
  EXPECT_EQ(read_busy_ticks(text, {}), std::nullopt);
  EXPECT_EQ(read_busy_ticks("cpu0 1 2\n", {0}), std::nullopt);
}

TEST(CoreUse, IsDisturbedByWhatItWanted) {
  EXPECT_TRUE((CoreUse{2, 2, 0.9, 0.05}).disturbed());
  EXPECT_TRUE((CoreUse{16, 16, 1, 3}).disturbed());
  EXPECT_FALSE((CoreUse{2, 1, 1, 0}).disturbed());     // one thread, and a core for it
  EXPECT_FALSE((CoreUse{64, 2, 40, 22}).disturbed());  // enough cores for all
  EXPECT_FALSE((CoreUse{2, 2, 0.05, 0.01}).disturbed());
  EXPECT_FALSE(CoreUse{}.disturbed());
  EXPECT_EQ(describe({2, 2, 0.93, 0}), "other programs took 0.9 of 2 cores");
  EXPECT_EQ(describe({128, 128, 123.4, 0}), "other programs took 123.4 of 128 cores");
}

// What this process takes itself is not the others'.
TEST(CoreUse, CountsOwnWorkOnce) {
  const CoreReading first{10, 100}, last{14, 106};  // 1.5 of the cores in four seconds
  const auto is = [](const CoreUse& use, const CoreUse& wanted) {
    EXPECT_EQ(use.usable, wanted.usable);
    EXPECT_DOUBLE_EQ(use.wanted, wanted.wanted);
    EXPECT_DOUBLE_EQ(use.others, wanted.others);
    EXPECT_DOUBLE_EQ(use.idle, wanted.idle);
  };
  is(core_use(first, last, 2, 4, 1), {2, 1, 0.5, 0.5});
  is(core_use(first, last, 2, 0, 1e6), {2, 2, 1.5, 0.5});
  is(core_use(first, last, 8, 6, 8), {8, 8, 0, 6.5});
  is(core_use(first, last, 1, 7, 1), {1, 1, 0, 0});  // ticks are coarser than our own clock
}

TEST(CoreUse, IsUnknownWithoutReadingsOrTime) {
  const CoreReading first{10, 100}, unknown{10, -1};
  EXPECT_EQ(core_use(first, {10.4, 101}, 2, 0, 1).usable, 0);
  EXPECT_EQ(core_use(unknown, {14, 106}, 2, 0, 1).usable, 0);
  EXPECT_EQ(core_use(first, {14, -1}, 2, 0, 1).usable, 0);
}

TEST(CoreWatch, ReadsTheSystemsCounters) {
  const CoreWatch watch(allowed_cores());
  double x = 1;
  EXPECT_EQ(watch.use(0, 1).usable, 0);  // too short to say
  while (watch.own_seconds() < 0.6) x = x * 1.0000001 + 1e-9;
  ASSERT_GT(x, 1);
  const CoreUse use = watch.use(0, 1);
  EXPECT_EQ(use.usable, std::ssize(allowed_cores()));
  EXPECT_GT(use.others, 0);  // nothing is said to be our own
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

// On busy cores the peak may come out below what a product reached.
TEST(Machine, NoProductIsFasterThanTheFmaPeak) {
  const auto settled = [](double fma, std::vector<double> again) {
    MachineRates rates;
    rates.fma = fma;
    rates.gemm = 100;
    double longest = 0;
    settle_fma_peak(rates, [&](double seconds) {
      EXPECT_GT(seconds, longest) << "longer each time";
      longest = seconds;
      EXPECT_FALSE(again.empty()) << "once more than it takes";
      const double rate = again.front();
      again.erase(again.begin());
      return rate;
    });
    EXPECT_TRUE(again.empty());
    return rates;
  };
  EXPECT_EQ(settled(120, {}).fma, 120);
  EXPECT_EQ(settled(75, {130}).fma, 130);
  EXPECT_FALSE(settled(75, {60, 110}).fma_from_product);
  const MachineRates low = settled(75, {90, 80});
  EXPECT_EQ(low.fma, 100);
  EXPECT_TRUE(low.fma_from_product);
  MachineInfo machine;
  machine.rates = low;
  EXPECT_EQ(to_json(machine)["measured"]["fma_from_product"], true);
  machine.rates = settled(120, {});
  EXPECT_FALSE(to_json(machine)["measured"].contains("fma_from_product"));
}

TEST(Machine, EveryThreadTakesPartInThePeak) {
  for (const int threads : {1, 3}) EXPECT_GT(measure_fma(threads, 0.01), 0) << threads;
}

TEST(Machine, TheDiskTestLeavesNothingBehind) {
  const TempDir dir;
  EXPECT_GT(measure_disk_write(dir.path()), 0);
  EXPECT_EQ(dir.entries(), 0u);
  EXPECT_ERROR(measure_disk_write(dir / "nowhere"), ExitCode::cannot_create, "nowhere");
}

}  // namespace
}  // namespace stretto
