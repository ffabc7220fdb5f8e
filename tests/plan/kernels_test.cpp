// Seconds of a layer's pieces, from the work they do and the rates of a device.
#include "plan/kernels.h"

#include <gtest/gtest.h>

#include "account/parameters.h"
#include "plan_support.h"

namespace stretto::plan {
namespace {

constexpr OutputTile kTiles[] = {{256, 128, 1.0}, {64, 64, 0.5}};

Rates plain_rates() {
  Rates r;
  r.matrix = r.matrix_peak = 1e14;
  r.head_matrix = 5e13;
  r.misaligned = 1e13;
  r.misaligned_batched = 2e12;
  r.stream = 1e12;
  r.units = 100;
  r.tiles = kTiles;
  r.flash_forward = 5e13;
  r.flash_backward = 2e13;
  r.flash_64 = 0.8;
  r.softmax = 6;
  r.unfused = 30;
  r.cross_entropy = 20;
  r.gap = 1e-5;
  return r;
}

TEST(Kernels, AProductTakesItsArithmeticOrItsTraffic) {
  Rates r = plain_rates();
  EXPECT_DOUBLE_EQ(gemm_seconds(r, 1, 12800, 768, 4096), 2.0 * 12800 * 768 * 4096 / 1e14);
  EXPECT_DOUBLE_EQ(gemm_seconds(r, 3, 12800, 768, 4096), 3 * 2.0 * 12800 * 768 * 4096 / 1e14);
  // Hardly any arithmetic for much to read and write.
  EXPECT_DOUBLE_EQ(gemm_seconds(r, 1, 25600, 1280, 8),
                   2.0 * (25600 * 8 + 8 * 1280 + 25600.0 * 1280) / 1e12);
  r.element = 4;
  EXPECT_DOUBLE_EQ(gemm_seconds(r, 1, 25600, 1280, 8),
                   4.0 * (25600 * 8 + 8 * 1280 + 25600.0 * 1280) / 1e12);
}

TEST(Kernels, APartOfTheLastWavesIdleUnitsIsPaid) {
  Rates r = plain_rates();
  r.wave = 0.5;
  const double tile = 2.0 * 256 * 128 * 4096 / (1e14 / 100);
  EXPECT_DOUBLE_EQ(gemm_seconds(r, 1, 256 * 30, 128 * 10, 4096), 3 * tile);
  EXPECT_DOUBLE_EQ(gemm_seconds(r, 1, 256 * 31, 128 * 10, 4096), (3.1 + 0.5 * 0.9) * tile);
  r.ramp = 1024;  // as if sums were so much longer
  EXPECT_DOUBLE_EQ(gemm_seconds(r, 1, 256 * 30, 128 * 10, 4096), 3 * tile * 1.25);
}

// A quarter of a large tile's work, at half its efficiency: better where the large one is mostly
// empty.
TEST(Kernels, TheBestTileIsTaken) {
  Rates r = plain_rates();
  r.wave = 1;
  EXPECT_DOUBLE_EQ(gemm_seconds(r, 1, 64, 64, 4096), 2.0 * 64 * 64 * 4096 / (1e12 * 0.5));
}

TEST(Kernels, AnyMisalignedSizeLeavesTheMatrixUnits) {
  const Rates r = plain_rates();
  const auto flops = [](int64_t m, int64_t n, int64_t k) {
    return 2.0 * static_cast<double>(m * n * k);
  };
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{4097, 4096, 4096}, {4096, 4097, 4096}, {4096, 4096, 4097}}) {
    EXPECT_DOUBLE_EQ(gemm_seconds(r, 1, m, n, k), flops(m, n, k) / 1e13);
    EXPECT_DOUBLE_EQ(gemm_seconds(r, 2, m, n, k), 2 * flops(m, n, k) / 2e12);
  }
}

struct Case {
  Stack stack = find_stack("stretto", find_cluster("h100"));
  Workload work{shape(1, 2048, 16, 4096), 512, 8, Precision::amp_bf16};
  Layout layout;

  Case() {
    layout.micro_batch = 8;
    stack.causal_flash = true;
  }
  LayerTime forward(const Rates& r) const { return layer_forward(r, stack, work, layout); }
  LayerTime backward(const Rates& r) const { return layer_backward(r, stack, work, layout); }
};

// Four products, each of which has two gradients.
TEST(Kernels, ALayerMultipliesEachTokenWithEachOfItsWeights) {
  Rates r = plain_rates();
  r.stream = 1e18;
  Case c;
  const double products = 2.0 * 4096 * (4 * 2048.0 * 2048 + 2 * 2048.0 * 8192) / 1e14;
  EXPECT_NEAR(c.forward(r).gemm, products, 1e-9 * products);
  EXPECT_NEAR(c.backward(r).gemm, 2 * products, 1e-9 * products);
  EXPECT_NEAR(down_product_seconds(r, c.work, c.layout), 2.0 * 4096 * 2048 * 8192 / 1e14, 1e-12);
  c.layout.tp = 4;
  EXPECT_NEAR(c.forward(r).gemm, products / 4, 1e-9 * products);
  EXPECT_NEAR(c.backward(r).gemm, products / 2, 1e-9 * products);
}

// Two products of scores, of which a causal kernel skips half; five backward.
TEST(Kernels, FlashAttentionCountsTheScores) {
  Rates r = plain_rates();
  Case c;
  ASSERT_EQ(c.stack.attention, AttentionKernel::flash);
  const double scores = 8.0 * 16 * 512 * 512;
  const double forward = 0.5 * 4 * scores * 128 / 5e13, backward = 0.5 * 10 * scores * 128 / 2e13;
  EXPECT_DOUBLE_EQ(c.forward(r).attention, forward);
  EXPECT_DOUBLE_EQ(c.backward(r).attention, backward);
  c.stack.causal_flash = false;
  EXPECT_DOUBLE_EQ(c.forward(r).attention, 2 * forward);
  c.stack.causal_flash = true;
  c.layout.tp = 4;
  EXPECT_DOUBLE_EQ(c.forward(r).attention, forward / 4);
  c.layout.tp = 1;
  r.flash_ramp = 256;
  EXPECT_DOUBLE_EQ(c.forward(r).attention, 1.5 * forward);
  r.flash_ramp = 0;
  c.work.model.heads = 32;  // of 64: as many scores again, each of half the work
  EXPECT_DOUBLE_EQ(c.forward(r).attention, forward / 0.8);
  c.work.model.heads = 16;
  c.work.model.hidden = 96 * 16;
  EXPECT_DOUBLE_EQ(c.forward(r).attention, forward * 96 / 128) << "96 is no small head";
}

// The scores in memory: two products, and the softmax over them.
TEST(Kernels, MaterialisedAttentionMovesTheScores) {
  Rates r = plain_rates();
  Case c;
  c.stack.attention = AttentionKernel::materialised;
  c.stack.backward_softmax = 1.25;
  const double products =
      gemm_seconds(r, 8 * 16, 512, 512, 128) + gemm_seconds(r, 8 * 16, 512, 128, 512);
  const double scores = 8.0 * 16 * 512 * 512;
  c.stack.fused_softmax = FusedSoftmax::always;
  EXPECT_DOUBLE_EQ(c.forward(r).attention, products + 6 * scores / 1e12);
  EXPECT_DOUBLE_EQ(c.backward(r).attention, 2 * products + 1.25 * 6 * scores / 1e12);
  c.stack.fused_softmax = FusedSoftmax::by_heads;
  c.work.model.heads = 8;  // blocks of 32, and 8 x 7 heads of a micro-batch
  c.layout.micro_batch = 7;
  const double few = 7.0 * 8 * 512 * 512;
  const double their = gemm_seconds(r, 56, 512, 512, 256) + gemm_seconds(r, 56, 512, 256, 512);
  EXPECT_DOUBLE_EQ(c.forward(r).attention, their + 36 * few / 1e12);
}

// Norms and residuals move the whole hidden size on each tensor rank, unless they share the
// sequence; what belongs to heads and feed-forward widths is always shared.
TEST(Kernels, PassesMoveWhatTheSoftwareSays) {
  const Rates r = plain_rates();
  Case c;
  c.stack.pass_whole = 11;
  c.stack.pass_shared = 8;
  c.stack.pass_ffn = 3;
  c.stack.backward_passes = 1.7;
  const double hidden = 2 * 4096 * 2048.0 / 1e12;  // one hidden size of each token
  EXPECT_DOUBLE_EQ(c.forward(r).passes, (11 + 8 + 3 * 4) * hidden);
  EXPECT_DOUBLE_EQ(c.backward(r).passes, 1.7 * (11 + 8 + 3 * 4) * hidden);
  c.layout.tp = 4;
  EXPECT_DOUBLE_EQ(c.forward(r).passes, (11 + 5) * hidden);
  c.layout.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(c.forward(r).passes, (2.75 + 5) * hidden);
  EXPECT_DOUBLE_EQ(gelu_write_seconds(r, c.work, c.layout), hidden);
}

TEST(Kernels, EveryLaunchHasItsGap) {
  const Rates r = plain_rates();
  Case c;
  c.stack.kernels_forward = 20;
  c.stack.kernels_backward = 36;
  EXPECT_DOUBLE_EQ(c.forward(r).launches, 20e-5);
  EXPECT_DOUBLE_EQ(c.backward(r).launches, 36e-5);
}

// Logits and two gradients, at the rate of the head's own type; our own vocabulary is padded.
TEST(Kernels, TheHeadMultipliesEachTokenWithTheVocabulary) {
  Rates r = plain_rates();
  Case c;
  for (const bool own : {false, true}) {
    c.stack.own_runtime = own;
    c.work.model.vocab = 4096 - 64;
    c.layout.tp = own ? 4 : 1;
    const auto vocab =
        static_cast<double>(own ? padded_vocab(c.work.model, 4) / 4 : c.work.model.vocab);
    r.stream = 1e18;  // no traffic decides
    const LayerTime t = head_both(r, c.stack, c.work, c.layout);
    const double products = 3 * 2.0 * 4096 * vocab * 2048 / 5e13;
    EXPECT_GE(t.gemm, products * (1 - 1e-9));
    EXPECT_LT(t.gemm, 1.05 * products) << "but for tiles that are not full";
    EXPECT_DOUBLE_EQ(t.passes, 4096 * 20 * vocab / 1e18);
  }
}

TEST(Kernels, TheRatesAreThoseOfThePrecision) {
  Cluster c = find_cluster("h100");
  Stack s = find_stack("stretto", c);
  s.constants.set(Constant::gemm, 0.5);
  s.constants.set(Constant::fp8, 1.8);
  const Rates bf16 = make_rates(c, s, Precision::amp_bf16);
  EXPECT_DOUBLE_EQ(bf16.matrix, 0.5 * c.matrix_flops);
  EXPECT_EQ(bf16.head_matrix, bf16.matrix);
  EXPECT_EQ(bf16.element, 2);
  EXPECT_FALSE(bf16.eight_bit);
  const Rates fp8 = make_rates(c, s, Precision::amp_fp8);
  EXPECT_DOUBLE_EQ(fp8.matrix, 1.8 * bf16.matrix);
  EXPECT_EQ(fp8.head_matrix, bf16.matrix);
  EXPECT_TRUE(fp8.eight_bit);
  const Rates fp32 = make_rates(c, s, Precision::fp32);
  EXPECT_DOUBLE_EQ(fp32.matrix, 0.5 * c.vector_flops);
  EXPECT_EQ(fp32.element, 4);
  c.matrix_flops_fp8 = 0;  // no such units
  EXPECT_EQ(make_rates(c, s, Precision::amp_fp8).matrix, bf16.matrix);
  EXPECT_EQ(make_rates(c, s, Precision::amp_fp16).matrix, bf16.matrix);
  c.time_shared = true;  // cores: they convert fp16 first
  EXPECT_EQ(make_rates(c, s, Precision::amp_fp16).matrix, fp32.matrix);
  EXPECT_EQ(make_rates(c, s, Precision::amp_bf16).matrix, bf16.matrix);
}

}  // namespace
}  // namespace stretto::plan
