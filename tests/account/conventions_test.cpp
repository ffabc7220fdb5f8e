// Each convention against its formula and against rows that were published under it.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "account/flops.h"
#include "account/parameters.h"
#include "account/peaks.h"
#include "account/shapes.h"
#include "base/error.h"

namespace stretto {
namespace {

using testing::arbitrary_shape;
using testing::gpt;

constexpr auto kFull = Checkpointing::full;
constexpr auto kNone = Checkpointing::none;

void expect_close(double a, double b) { RC_ASSERT(std::abs(a - b) <= 1e-11 * std::abs(b)); }

TEST(Conventions, ClosedFormsOfParameterCountingOnes) {
  EXPECT_TRUE(rc::check([] {
    const ModelShape shape = arbitrary_shape();
    const int64_t seq = *rc::gen::inRange<int64_t>(1, 5000);
    const double n = static_cast<double>(parameter_count(shape));
    const double ldt = static_cast<double>(shape.layers * shape.hidden * seq);
    const auto mpt = flops_per_token(Convention::mpt, shape, seq, kFull);
    expect_close(mpt.model_total(), 6 * n + 12 * ldt);
    expect_close(mpt.hardware_total(), 8 * n + 16 * ldt);
    expect_close(mpt.model.without_attention(), 6 * n);
    const auto mosaic = flops_per_token(Convention::mosaicgpt, shape, seq, kFull);
    expect_close(mosaic.model_total(), 6 * n + 4 * ldt);
    expect_close(mosaic.hardware_total(), 8 * n + 6 * ldt);
    expect_close(mosaic.model.without_attention() + mosaic.recompute.without_attention(), 8 * n);
  }));
}

TEST(Conventions, ClosedFormsOfMegatron) {
  EXPECT_TRUE(rc::check([] {
    ModelShape shape = arbitrary_shape();
    const double s = static_cast<double>(*rc::gen::inRange<int64_t>(1, 5000));
    const double l = static_cast<double>(shape.layers), h = static_cast<double>(shape.hidden);
    const double v = static_cast<double>(shape.vocab);
    const double bracket = 1 + s / (6 * h) + v / (16 * l * h);
    const auto flops = flops_per_token(Convention::megatron, shape, static_cast<int64_t>(s), kFull);
    expect_close(flops.model_total(), 72 * l * h * h * bracket);
    expect_close(flops.hardware_total(), 96 * l * h * h * bracket);
    const auto old =
        flops_per_token(Convention::megatron_old, shape, static_cast<int64_t>(s), kFull, {8, 12});
    const double p = 12 * l * h * h + 7 * l * h + 6 * l * h * 8 + 2 * h * 8 * 12;
    expect_close(old.hardware_total(), 8 * p);
  }));
}

TEST(Conventions, WithoutRecomputationHfuIsMfu) {
  const ModelShape shape = gpt(12, 768, 12, 50368, 2048);
  for (Convention convention : kConventions) {
    if (convention == Convention::hardware) continue;  // fused attention always repeats q k^T
    for (auto plan : {kNone, Checkpointing::selective}) {
      const auto flops = flops_per_token(convention, shape, 2048, plan);
      EXPECT_EQ(flops.model_total(), flops.hardware_total()) << name_of(convention);
    }
  }
}

// Published: MPT 70b, 2048 tokens, 64 H100; the counts to the integer.
TEST(Conventions, PublishedMpt) {
  const ModelShape mpt_70b = gpt(80, 8192, 64, 50368, 2048);
  EXPECT_EQ(parameter_count(mpt_70b), 64862437376);
  EXPECT_EQ(parameter_count(gpt(12, 768, 12, 50257, 1024)), 124439808);
  const auto use = utilization(flops_per_token(Convention::mpt, mpt_70b, 2048, kFull), 66523.5, 64,
                               device_peak("h100_80gb", PeakFormat::bf16));
  ASSERT_TRUE(use.has_value());
  EXPECT_NEAR(use->mfu, 0.4257, 0.00005);
  EXPECT_NEAR(use->hfu, 0.5676, 0.00005);
}

TEST(Conventions, PublishedMosaicGpt) {
  const ModelShape shape = gpt(12, 768, 12, 50257, 16384);
  EXPECT_EQ(parameter_count(shape), 136236288);
  const auto use = utilization(flops_per_token(Convention::mosaicgpt, shape, 16384, kFull),
                               1508631.35, 32, device_peak("a100_40gb", PeakFormat::bf16));
  ASSERT_TRUE(use.has_value());
  EXPECT_NEAR(use->mfu_star, 0.1235, 0.00005);
  EXPECT_NEAR(use->mfu, 0.2148, 0.00005);
  EXPECT_NEAR(use->hfu_star, 0.1647, 0.00005);
  EXPECT_NEAR(use->hfu, 0.3016, 0.00005);
}

// 181B on 384 A100: 120.18 s for 2048 x 2048 tokens is 134.15 TFLOP/s under the newer formula; the
// 20B of February 17 follows the older one.
TEST(Conventions, PublishedMegatron) {
  const auto flops =
      flops_per_token(Convention::megatron, gpt(72, 14336, 64, 250880, 2048), 2048, kFull);
  EXPECT_NEAR(flops.hardware_total() * 2048 * 2048 / (120.18 * 384) / 1e12, 134.15, 0.011);
  const auto old = flops_per_token(Convention::megatron_old, gpt(8, 14400, 32, 250880, 2048), 2048,
                                   kFull, {8, 1});
  EXPECT_NEAR(old.hardware_total() * 2048 * 2048 / (769.99 * 8) / 1e12, 108.47, 0.006);
}

// Causal attention and no look-ups: 0.96 of the mpt count for 7b at 2048 tokens, 0.63 at 65536.
TEST(Conventions, CausalAgainstMpt) {
  const auto ratio = [](const ModelShape& shape, int64_t seq) {
    return flops_per_token(Convention::causal, shape, seq, kNone).model_total() /
           flops_per_token(Convention::mpt, shape, seq, kNone).model_total();
  };
  EXPECT_NEAR(ratio(gpt(32, 4096, 32, 50368, 2048), 2048), 0.96, 0.005);
  EXPECT_NEAR(ratio(gpt(32, 4096, 32, 50368, 65536), 65536), 0.63, 0.005);
  EXPECT_NEAR(ratio(gpt(12, 768, 12, 50368, 65536), 65536), 0.53, 0.005);
}

TEST(Conventions, UnknownPeakGivesNoUtilization) {
  const auto flops = flops_per_token(Convention::mpt, gpt(2, 64, 4, 99, 32), 32, kNone);
  EXPECT_FALSE(utilization(flops, 1e5, 8, std::nullopt).has_value());
  EXPECT_FALSE(utilization(flops, 1e5, 8, 0.0).has_value());
}

TEST(Conventions, NamesRoundTripAndTheWrongOneIsExplained) {
  for (Convention convention : kConventions) {
    EXPECT_EQ(convention_from_name(name_of(convention)), convention);
  }
  try {
    convention_from_name("mtp");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(error.hint().find("megatron-old"), std::string::npos);
  }
}

}  // namespace
}  // namespace stretto
