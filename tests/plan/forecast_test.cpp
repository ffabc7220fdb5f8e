// The forecast of our own runs: what the machine's figures and known runs do to it.
#include "plan/forecast.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "config/registry.h"
#include "plan/local.h"
#include "plan/search.h"

namespace stretto::plan {
namespace {

std::string machine(int cores, double gemm, double bandwidth) {
  return fmt::format(
      R"({{"cpu": {{"usable": {}}}, "memory": {{"total_bytes": 8e9}},
          "measured": {{"gemm_flops": {:.6e}, "triad_bytes_per_second": {:.6e},
                        "message_seconds": 2e-6, "message_bytes_per_second": 1e10}}}})",
      cores, gemm, bandwidth);
}

Config tiny_run() {
  Config c;
  c.model = find_model("tiny");
  c.seq_len = 128;
  c.micro_batch = 4;
  c.global_batch = 16;
  c.threads = 1;
  return c;
}

TEST(Forecast, SaysNothingWithoutMeasuredRates) {
  EXPECT_FALSE(forecast_run(tiny_run(), R"({"cpu": {"usable": 2}})"));
  EXPECT_FALSE(forecast_run(tiny_run(), "no JSON"));
  EXPECT_FALSE(forecast_run(tiny_run(), ""));
  Config by_hand = tiny_run();
  by_hand.parallel.pp = 2;
  by_hand.parallel.partition = "[1,3]";
  EXPECT_FALSE(forecast_run(by_hand, machine(2, 2e11, 2e10)));
  Config gpu = tiny_run();
  gpu.device = Device::cuda;
  EXPECT_FALSE(forecast_run(gpu, machine(2, 2e11, 2e10))) << "no GPU is named";
}

// Cards for other slots share a name with those that the cluster files describe, not their rates.
TEST(Forecast, KnowsOnlyTheCardsThatClusterFilesDescribe) {
  Config gpu = tiny_run();
  gpu.device = Device::cuda;
  const auto cluster = [&](const std::string& name) {
    std::string text = machine(2, 2e11, 2e10);
    text.insert(1, fmt::format(R"("gpu": {{"devices": [{{"name": "{}"}}]}}, )", name));
    const std::optional<Cluster> found = cluster_of_run(gpu, text);
    return found ? found->name : "";
  };
  EXPECT_EQ(cluster("NVIDIA H200"), "h200");
  EXPECT_EQ(cluster("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(cluster("NVIDIA A100-SXM4-40GB"), "a100-40");
  EXPECT_EQ(cluster("NVIDIA A100-SXM4-80GB"), "a100-80");
  EXPECT_EQ(cluster("NVIDIA GB200"), "gb200");
  for (const char* other :
       {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA GH200 480GB",
        "NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}) {
    EXPECT_EQ(cluster(other), "") << other;
  }
}

TEST(Forecast, UnitsForBf16MakeItFasterAndNothingElse) {
  Config bf16 = tiny_run();
  bf16.precision = Precision::amp_bf16;
  const std::string plain = machine(2, 2e11, 2e10);
  std::string units = plain;
  const std::string key = "\"gemm_flops\"";
  units.insert(units.find(key), "\"bf16_gemm_flops\": 2e12, ");
  ASSERT_TRUE(forecast_run(bf16, plain) && forecast_run(bf16, units));
  EXPECT_LT(forecast_run(bf16, units)->estimate.gemm,
            0.2 * forecast_run(bf16, plain)->estimate.gemm);
  EXPECT_EQ(forecast_run(tiny_run(), units)->seconds, forecast_run(tiny_run(), plain)->seconds);
  Config fp16 = tiny_run();
  fp16.precision = Precision::amp_fp16;  // multiplied as f32
  EXPECT_EQ(forecast_run(fp16, units)->seconds, forecast_run(fp16, plain)->seconds);
}

TEST(Forecast, RanksBeyondTheCoresTakeTurns) {
  Config two = tiny_run(), four = tiny_run();
  two.parallel.dp = 2;
  four.parallel.dp = 4;
  const auto a = forecast_run(two, machine(2, 2e11, 2e10));
  const auto b = forecast_run(four, machine(2, 2e11, 2e10));
  const auto c = forecast_run(four, machine(4, 4e11, 4e10));
  ASSERT_TRUE(a && b && c);
  EXPECT_GT(b->estimate.core_wait, 0);
  EXPECT_EQ(c->estimate.core_wait, 0);
  EXPECT_GT(b->seconds, 0.95 * a->seconds) << "no faster than one rank per core";
  EXPECT_NEAR(c->seconds, 0.5 * a->seconds, 0.15 * a->seconds);
}

// MFU of a plan counts against the peak that `bench` would name: multiply-adds, where products are
// slower; once for ranks that take turns.
TEST(Forecast, ThePeakIsThatOfBench) {
  MachineFigures m;
  m.cores = 2;
  m.gemm = m.bf16_gemm = 2e11;
  m.bandwidth = 2e10;
  m.memory = 8e9;
  const auto mfu = [&](int64_t ranks) {
    const Cluster cluster = local_cluster(m, 1, ranks);
    Config config = tiny_run();
    config.parallel.dp = ranks;
    const Candidate c =
        price(cluster, find_stack("stretto", cluster), workload_of(config), layout_of(config));
    return c.mfu / c.tokens_per_second;
  };
  const double by_products = mfu(1), on_two = mfu(2);
  EXPECT_NEAR(on_two, by_products / 2, 1e-9 * by_products);
  EXPECT_DOUBLE_EQ(mfu(4), on_two);
  m.fma = 3e11;
  m.fma_one_core = 1.6e11;  // at a higher clock, which two do not have at once
  EXPECT_NEAR(mfu(1), by_products * 1e11 / 1.6e11, 1e-9 * by_products);
  EXPECT_NEAR(mfu(2), on_two * 2e11 / 3e11, 1e-9 * on_two);
  m.fma = 1e11;  // as an instruction set that the measurement does not know
  m.fma_one_core = 0.5e11;
  EXPECT_DOUBLE_EQ(mfu(2), on_two);
}

TEST(Forecast, AKnownRunIsPredictedAsMeasured) {
  const std::string m = machine(2, 2e11, 2e10);
  const KnownRun known{tiny_run(), 0.321};
  const auto f = forecast_run(tiny_run(), m, {&known, 1});
  ASSERT_TRUE(f);
  EXPECT_NEAR(f->seconds, 0.321, 1e-9);
  EXPECT_LT(f->high / f->low, forecast_run(tiny_run(), m)->high / forecast_run(tiny_run(), m)->low);
}

TEST(Forecast, RecomputationTakesTime) {
  Config full = tiny_run();
  full.activation_checkpointing = Checkpointing::full;
  const auto one = forecast_run(tiny_run(), machine(2, 2e11, 2e10));
  const auto again = forecast_run(full, machine(2, 2e11, 2e10));
  ASSERT_TRUE(one && again);
  EXPECT_GT(again->seconds, one->seconds);
}

RC_GTEST_PROP(Forecast, ABetterMachineIsNeverSlower, ()) {
  Config c = tiny_run();
  c.parallel.dp = *rc::gen::element<int64_t>(1, 2, 4);
  c.parallel.tp = *rc::gen::element<int64_t>(1, 2);
  c.parallel.pp = *rc::gen::element<int64_t>(1, 2, 4);
  c.parallel.zero = c.parallel.pp > 1 ? 0 : *rc::gen::inRange(0, 4);
  c.micro_batch = *rc::gen::element<int64_t>(1, 2, 4);
  const double gemm = 1e9 * *rc::gen::inRange(10, 1000), more = 1 + 0.1 * *rc::gen::inRange(0, 30);
  const auto a = forecast_run(c, machine(2, gemm, 1e10));
  const auto b = forecast_run(c, machine(2, gemm * more, 1e10));
  const auto d = forecast_run(c, machine(2, gemm, 1e10 * more));
  const auto e = forecast_run(c, machine(4, gemm * 2, 2e10));
  RC_ASSERT(a && b && d && e);
  RC_ASSERT(b->seconds <= a->seconds * (1 + 1e-12));
  RC_ASSERT(d->seconds <= a->seconds * (1 + 1e-12));
  RC_ASSERT(e->seconds <= a->seconds * (1 + 1e-12));
}

}  // namespace
}  // namespace stretto::plan
