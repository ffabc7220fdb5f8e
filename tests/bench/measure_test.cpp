#include "bench/measure.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "backend/cpu/gemm.h"
#include "base/cores.h"
#include "bench/resident.h"
#include "bench/survey.h"
#include "config/reader.h"
#include "support/temp_dir.h"
#include "train/signals.h"

namespace stretto {
namespace {

// A machine of round numbers, so that nothing is measured here.
constexpr const char* kMachine =
    R"({"cpu":{"model":"Paper CPU","usable":4},"memory":{"total_bytes":8e9},"measured":{"fma_flops":4e11,"gemm_flops":2e11,)"
    R"("triad_bytes_per_second":2e10}})";

Config small() {
  return load_config({"tiny-100k", "seq_len=32", "micro_batch=1", "global_batch=2", "threads=1"})
      .config;
}

MeasureOptions options() {
  MeasureOptions o;
  o.steps = 3;
  o.warmup = 1;
  o.seconds = 0;
  o.machine = kMachine;
  return o;
}

TEST(Measure, KeepsEveryStepAndAddsUp) {
  const RunRecord r = measure(small(), options()).value();
  EXPECT_EQ(r.status, RunStatus::ok) << r.reason;
  ASSERT_EQ(r.steps.size(), 4u);
  EXPECT_GE(std::ssize(r.timed_seconds()), 3);
  double mean = 0;
  for (const double s : r.timed_seconds())
    mean += s / static_cast<double>(r.timed_seconds().size());
  const double parts = std::accumulate(r.parts.begin(), r.parts.end(), 0.0);
  EXPECT_NEAR(parts, mean, 0.01 * mean);
  EXPECT_NEAR(r.parts_wall, mean, 1e-9);
  EXPECT_GT(r.memory.predicted_rank, 0);
  EXPECT_EQ(
      std::accumulate(r.memory.predicted_terms.begin(), r.memory.predicted_terms.end(), int64_t{0}),
      r.memory.predicted_rank);
  EXPECT_GT(r.memory.measured, 0);
  EXPECT_EQ(r.device, "Paper CPU");
  EXPECT_GT(r.predicted.seconds, 0);
  EXPECT_LE(r.predicted.low, r.predicted.seconds);
  EXPECT_GE(r.predicted.high, r.predicted.seconds);
}

// A sparse file of zeros: its pages are read as any others.
std::string corpus(const TempDir& dir, int64_t bytes) {
  const std::string path = dir.write("tokens.bin", "");
  std::filesystem::resize_file(path, static_cast<uintmax_t>(bytes));
  return path;
}

// The corpus is looked over before the first step, and its mapping is gone after the last one: its
// pages must not count as memory of the run.
TEST(Measure, ACorpusIsNotTheRunsMemory) {
  constexpr int64_t kCorpus = 64 << 20;
  const TempDir dir;
  Config config = small();
  config.data.path = corpus(dir, kCorpus);
  config.data.format = TokenFormat::bytes;
  for (const int64_t dp : {1, 2}) {
    config.parallel.dp = dp;
    const RunRecord r = measure(config, options()).value();
    ASSERT_FALSE(r.steps.empty()) << r.reason;
    EXPECT_LT(r.memory.measured - r.memory.before, kCorpus / 2);
    EXPECT_LT(r.memory.grown_total, kCorpus / 2);
    EXPECT_GT(r.memory.grown_total, 0);
  }
}

TEST(ResidentPeak, LeavesOutFilesAndKeepsShortPeaks) {
  constexpr size_t kBytes = 64 << 20;
  const TempDir dir;
  ResidentPeak peak;
  const int64_t before = peak.bytes();
  std::vector<char> read(1 << 20);
  {
    const auto mapped = posix_fs().map(corpus(dir, kBytes));
    for (size_t at = 0; at < kBytes; at += read.size()) {
      mapped->copy(read.data(), read.size(), static_cast<int64_t>(at));
    }
    peak.look();
  }
  EXPECT_LT(peak.bytes() - before, int64_t{kBytes} / 2);
  // What comes and goes between two looks, with fewer pages of files about than own ones.
  ResidentPeak brief;
  const int64_t calm = brief.bytes();
  {
    const std::vector<char> own(kBytes, 1);
    read.assign(own.end() - 9, own.end());
  }
  EXPECT_GT(brief.bytes() - calm, int64_t{kBytes} / 2);
}

// In a process of its own, because a stop signal is remembered for good.
TEST(MeasureDeathTest, ARunStoppedAfterEnoughStepsIsStopped) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto stop = [] {
    install_stop_signals();
    MeasureOptions o = options();
    o.steps = kMostSteps;
    o.progress = [](int64_t step, int64_t) {
      if (step == 40) std::raise(SIGTERM);
    };
    const RunRecord r = measure(small(), o).value();
    fmt::print(stderr, "{}{}\n", name_of(r.status), r.counts() ? ", with figures" : "");
    std::_Exit(r.exit_code);
  };
  EXPECT_EXIT(stop(), testing::ExitedWithCode(75), "stopped, with figures");
}

// Waiting, computing and reading must add up to the whole step on every rank, with nothing counted
// twice.
TEST(Measure, PartsOfAllRanksAddUpToTheStep) {
  for (const bool pipeline : {false, true}) {
    Config config = small();
    (pipeline ? config.parallel.pp : config.parallel.dp) = 2;
    const RunRecord r = measure(config, options()).value();
    ASSERT_EQ(r.status, RunStatus::ok) << r.reason;
    EXPECT_NEAR(std::accumulate(r.parts.begin(), r.parts.end(), 0.0), r.parts_wall,
                0.01 * r.parts_wall);
    EXPECT_GT(r.operators[static_cast<size_t>(Op::linear_forward)].calls, 0u);
    EXPECT_EQ(r.timeline.size(), pipeline ? 2u : 1u);
    EXPECT_EQ(r.nodes, 1);
  }
}

TEST(Measure, TwoRanksShareTheMachinesPeak) {
  Config config = small();
  config.parallel.dp = 2;
  const RunRecord r = measure(config, options()).value();
  EXPECT_EQ(r.status, RunStatus::ok) << r.reason;
  EXPECT_DOUBLE_EQ(r.peak, 1e11);  // one thread of four, per rank
  EXPECT_DOUBLE_EQ(r.gemm_peak, 5e10);
  EXPECT_EQ(r.memory.predicted_total, 2 * r.memory.predicted_rank);
}

// What a step of the full batch takes, and computes.
TEST(Measure, ABatchThatGrowsIsMeasuredAtItsFullSize) {
  const auto products = [](const RampUp& ramp) {
    Config config = small();
    config.global_batch = 8;
    config.train.ramp_up = ramp;
    const RunRecord r = measure(config, options()).value();
    EXPECT_EQ(r.status, RunStatus::ok) << r.reason;
    EXPECT_EQ(config_hash(r.config), config_hash([&] {
                config.train.steps = r.config.train.steps;
                return config;
              }()));
    return r.operators[static_cast<size_t>(Op::linear_forward)].flops;
  };
  EXPECT_EQ(products({1, 1, 1000}), products({}));
}

RunRecord described(const Config& config, const std::string& machine) {
  RunRecord r;
  r.config = config;
  r.machine = machine;
  describe_device(r);
  return r;
}

// Four threads on two cores whose clock falls when both are busy.
TEST(Peak, OfFewThreadsIsNotLessThanThatOfOneCoreAlone) {
  const std::string machine =
      R"({"cpu":{"usable":4},"measured":{"fma_flops":2e11,"fma_flops_one_core":1.2e11,"gemm_flops":1e11}})";
  Config config = small();
  EXPECT_DOUBLE_EQ(described(config, machine).peak, 1.2e11);
  EXPECT_DOUBLE_EQ(described(config, machine).gemm_peak, 0.6e11);
  config.threads = 2;
  EXPECT_DOUBLE_EQ(described(config, machine).peak, 2e11);  // never more than all
  config.threads = 0;
  EXPECT_DOUBLE_EQ(described(config, machine).peak, 2e11);
  config.threads = 1;
  config.parallel.dp = 2;
  EXPECT_DOUBLE_EQ(described(config, machine).peak, 1e11);  // per rank
}

// Ranks on other machines, or bound to other cores, do not share the measured cores.
TEST(Peak, IsSharedByTheRanksOnTheMeasuredCoresAlone) {
  RunRecord r;
  r.config = small();
  r.config.threads = 0;
  r.config.parallel.dp = 8;
  r.machine = R"({"cpu":{"usable":4},"measured":{"fma_flops":4e11,"gemm_flops":2e11}})";
  const auto peak = [&](const Neighbours& neighbours) {
    describe_device(r, "a machine", neighbours);
    EXPECT_DOUBLE_EQ(r.gemm_peak, r.peak / 2);
    return r.peak;
  };
  EXPECT_DOUBLE_EQ(peak({}), 0.5e11);
  EXPECT_DOUBLE_EQ(peak({8, 8, 4}), 0.5e11);
  EXPECT_DOUBLE_EQ(peak({4, 4, 4}), 1e11);  // two machines
  EXPECT_DOUBLE_EQ(peak({8, 1, 4}), 4e11);  // bound to four cores each
  EXPECT_DOUBLE_EQ(peak({4, 1, 1}), 1e11);  // bound to one each, but measured together
  r.config.threads = 1;
  EXPECT_DOUBLE_EQ(peak({2, 2, 4}), 1e11);  // two of four cores are used
}

TEST(Peak, OfBf16IsThatOfItsUnits) {
  const std::string begin = R"({"cpu":{"usable":1,"simd":["avx2","amx_bf16"]},"measured":{)"
                            R"("fma_flops":1e11,"gemm_flops":0.8e11)";
  const std::string measured = begin + R"(,"bf16_gemm_flops":9e11}})", unmeasured = begin + "}}";
  Config config = small();
  for (const Precision precision : {Precision::amp_bf16, Precision::bf16, Precision::amp_fp8}) {
    config.precision = precision;
    EXPECT_DOUBLE_EQ(described(config, measured).peak, 9e11);
    EXPECT_DOUBLE_EQ(described(config, measured).gemm_peak, 9e11);
    EXPECT_EQ(described(config, unmeasured).peak, 0);
    EXPECT_EQ(described(config, unmeasured).peak_source, "unknown peak");
  }
  for (const Precision precision : {Precision::fp32, Precision::amp_fp16}) {  // multiplied as f32
    config.precision = precision;
    EXPECT_DOUBLE_EQ(described(config, measured).peak, 1e11);
    EXPECT_DOUBLE_EQ(described(config, unmeasured).gemm_peak, 0.8e11);
  }
}

TEST(Peak, ProductsOfAGpuAreMeasuredIn16Bits) {
  const std::string machine =
      R"({"gpu":{"devices":[{"name":"NVIDIA H200","bf16_measured":7e14}]}})";
  Config config = small();
  config.device = Device::cuda;
  EXPECT_EQ(described(config, machine).gemm_peak, 0);
  config.precision = Precision::amp_bf16;
  EXPECT_DOUBLE_EQ(described(config, machine).gemm_peak, 7e14);
}

TEST(Measure, TooLittleMemoryIsAnAnswer) {
  Config config = small();
  config.memory_limit = 1000;
  const RunRecord r = measure(config, options()).value();
  EXPECT_EQ(r.status, RunStatus::oom);
  EXPECT_EQ(r.exit_code, static_cast<int>(ExitCode::out_of_memory));
  EXPECT_NE(r.reason.find("fix:"), std::string::npos);
  EXPECT_TRUE(r.steps.empty());
  EXPECT_NO_THROW(parse_record(record_text(r), "oom"));
}

// The median would mix steps with and without a ceiling.
TEST(Measure, AClockThatChangesIsNotMeasured) {
  Config config = small();
  config.device = Device::cuda;
  config.gpu_clock = kAuto;
  const RunRecord record = measure(config, options()).value();
  EXPECT_EQ(record.exit_code, static_cast<int>(ExitCode::bad_config));
  EXPECT_NE(record.reason.find("gpu_clock=auto would change the clock"), std::string::npos)
      << record.reason;
}

// On a GPU the steps that show where the time goes are not the ones that are timed.
TEST(Measure, StepsByOperatorStandApart) {
  for (const int dp : {1, 2}) {
    Config config = small();
    config.parallel.dp = dp;
    MeasureOptions o = options();
    int64_t steps = 0;
    o.progress = [&](int64_t, int64_t) { ++steps; };
    o.by_operator = 2;
    const RunRecord r = measure(config, o).value();
    EXPECT_EQ(r.status, RunStatus::ok) << r.reason;
    EXPECT_EQ(r.steps.size(), 4u);
    EXPECT_EQ(steps, 4);
    const double parts = std::accumulate(r.parts.begin(), r.parts.end(), 0.0);
    double mean = 0;
    for (const double s : r.timed_seconds()) {
      mean += s / static_cast<double>(r.timed_seconds().size());
    }
    EXPECT_GT(r.parts_wall, 0);
    EXPECT_NE(r.parts_wall, mean);  // of other steps
    EXPECT_NEAR(parts, r.parts_wall, 0.01 * r.parts_wall);
    EXPECT_GT(r.operators[static_cast<size_t>(Op::linear_forward)].calls, 0u);
  }
}

// A run has its most steps, whatever seconds are asked for; those by operator come in addition.
TEST(Measure, StepsByOperatorFollowTheMost) {
  MeasureOptions o = options();
  o.seconds = 1e6;
  o.by_operator = 2;
  const RunRecord r = measure(small(), o).value();
  EXPECT_EQ(std::ssize(r.steps), kMostSteps);
  double mean = 0;
  for (const double s : r.timed_seconds())
    mean += s / static_cast<double>(std::ssize(r.timed_seconds()));
  EXPECT_NE(r.parts_wall, mean);  // of other steps
}

// Over half a second the record says what the cores did.
TEST(Measure, KnowsItsCores) {
  MeasureOptions o = options();
  o.seconds = 0.6;
  const RunRecord r = measure(small(), o).value();
  EXPECT_EQ(r.cores.usable, std::ssize(allowed_cores()));
  EXPECT_EQ(r.cores.wanted, 1);  // threads=1
}

TEST(Measure, AutoMicroBatchIsTheLargestThatFits) {
  Config config = small();
  config.micro_batch = kAuto;
  EXPECT_EQ(measure(config, options())->config.micro_batch, 2);
}

TEST(Survey, RateOfAProductIsFiniteOnAnyBackend) {
  const auto backend = make_cpu_backend(1);
  for (const DType type : {DType::f32, DType::bf16}) {
    const double rate = measured_matmul_rate(*backend, type, 64, 10);
    EXPECT_GT(rate, 0);
    EXPECT_TRUE(std::isfinite(rate));
  }
}

TEST(Survey, MeasuresTheProductsOfTheCpu) {
  const TempDir dir{Where::memory};
  const MachineInfo machine = survey_machine(true, dir.path());
  ASSERT_TRUE(machine.rates);
  EXPECT_GT(machine.rates->gemm, 0);
  EXPECT_GE(machine.rates->fma, machine.rates->gemm);
  EXPECT_EQ(machine.rates->bf16_gemm > 0, has_bf16_units());
}

TEST(Losses, MustBeFiniteAndFallUnlessSynthetic) {
  const auto steps = [](std::initializer_list<double> losses) {
    std::vector<StepSample> out;
    for (const double loss : losses) out.push_back({1, loss, false});
    return out;
  };
  EXPECT_EQ(judge_losses(steps({3, 2, 1}), false).status, RunStatus::ok);
  EXPECT_EQ(judge_losses(steps({3, 3, 3}), false).status, RunStatus::fail);
  EXPECT_EQ(judge_losses(steps({1, 2, 3}), false).status, RunStatus::fail);
  EXPECT_EQ(judge_losses(steps({1, 2, 3}), true).status, RunStatus::ok);
  EXPECT_EQ(judge_losses(steps({3, NAN, 1}), true).status, RunStatus::diverged);
  EXPECT_EQ(judge_losses(steps({3, INFINITY, 1}), false).status, RunStatus::diverged);
}

}  // namespace
}  // namespace stretto
