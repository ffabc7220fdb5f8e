// FLOPs by formula against FLOPs counted over the list of matrix products.
#include "account/flops.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "account/parameters.h"
#include "account/products.h"
#include "account/shapes.h"

namespace stretto {
namespace {

using testing::arbitrary_checkpointing;
using testing::arbitrary_shape;
using testing::Attention;
using testing::gpt;
using testing::matrix_products;
using testing::MatrixProduct;
using testing::Phase;

FlopsPerToken counted(const ModelShape& shape, int64_t batch, int64_t seq, Checkpointing plan,
                      bool fused) {
  FlopsPerToken sum;
  const auto list = matrix_products(shape, batch, seq, Attention::causal, plan, fused);
  const double tokens = static_cast<double>(batch * seq);
  for (const MatrixProduct& p : list) {
    (p.phase == Phase::recompute ? sum.recompute : sum.model)[p.product] += p.flops() / tokens;
  }
  return sum;
}

void expect_equal(const FlopsPerToken& formula, const FlopsPerToken& count) {
  for (int i = 0; i < kProducts; ++i) {
    const auto p = static_cast<Product>(i);
    const double slack = 1e-12 * (1 + count.model[p]);
    RC_ASSERT(std::abs(formula.model[p] - count.model[p]) <= slack);
    RC_ASSERT(std::abs(formula.recompute[p] - count.recompute[p]) <= slack);
  }
  RC_ASSERT(formula.model.other == 0.0);
}

TEST(Flops, FormulaEqualsTheListOfProducts) {
  EXPECT_TRUE(rc::check([] {
    const ModelShape shape = arbitrary_shape();
    const int64_t batch = *rc::gen::inRange<int64_t>(1, 9);
    const int64_t seq = *rc::gen::inRange<int64_t>(1, 130);
    const Checkpointing plan = arbitrary_checkpointing();
    expect_equal(flops_per_token(Convention::causal, shape, seq, plan),
                 counted(shape, batch, seq, plan, false));
    expect_equal(flops_per_token(Convention::hardware, shape, seq, plan),
                 counted(shape, batch, seq, plan, true));
  }));
}

// The triangle once more, the slow way: query i multiplies with keys 0 to i.
TEST(Flops, CausalAttentionIsTheSumOverQueries) {
  EXPECT_TRUE(rc::check([] {
    const ModelShape shape = arbitrary_shape();
    const int64_t batch = *rc::gen::inRange<int64_t>(1, 5);
    const int64_t seq = *rc::gen::inRange<int64_t>(1, 70);
    int64_t slow = 0;
    for (int64_t i = 0; i < seq; ++i) slow += 2 * (i + 1) * shape.head_size();
    slow *= batch * shape.heads * shape.layers;
    for (const MatrixProduct& p :
         matrix_products(shape, batch, seq, Attention::causal, Checkpointing::full, true)) {
      if (p.product != Product::scores && p.product != Product::values) continue;
      RC_ASSERT(std::abs(p.flops() - static_cast<double>(slow)) < 1e-9 * p.flops());
    }
  }));
}

TEST(Flops, BackwardIsTwiceForwardAndSelectiveMultipliesNothingAgain) {
  EXPECT_TRUE(rc::check([] {
    const ModelShape shape = arbitrary_shape();
    double sum[3] = {};
    const auto list = matrix_products(shape, 3, *rc::gen::inRange<int64_t>(1, 99),
                                      *rc::gen::element(Attention::dense, Attention::causal),
                                      Checkpointing::selective, false);
    for (const MatrixProduct& p : list) sum[static_cast<int>(p.phase)] += p.flops();
    RC_ASSERT(std::abs(sum[1] - 2 * sum[0]) <= 1e-12 * sum[1]);
    RC_ASSERT(sum[2] == 0.0);
  }));
}

TEST(Flops, FullRecomputesEachLayerUpToItsLastProduct) {
  const ModelShape shape = gpt(2, 64, 4, 1000, 32);
  double layers = 0, again = 0;
  for (const MatrixProduct& p :
       matrix_products(shape, 2, 32, Attention::dense, Checkpointing::full, false)) {
    const bool last = p.product == Product::down || p.product == Product::head;
    if (p.phase == Phase::forward && !last) layers += p.flops();
    if (p.phase == Phase::recompute) again += p.flops();
  }
  EXPECT_EQ(layers, again);
  EXPECT_GT(layers, 0);
}

TEST(Flops, OnlyTheOldConventionKnowsRanks) {
  EXPECT_TRUE(rc::check([] {
    const ModelShape shape = arbitrary_shape();
    const RunCut ranks{*rc::gen::inRange<int64_t>(2, 9), *rc::gen::inRange<int64_t>(2, 9)};
    const Checkpointing plan = arbitrary_checkpointing();
    for (Convention convention : kConventions) {
      const double one = flops_per_token(convention, shape, 16, plan).hardware_total();
      const double cut = flops_per_token(convention, shape, 16, plan, ranks).hardware_total();
      RC_ASSERT((one == cut) == (convention != Convention::megatron_old));
    }
  }));
}

}  // namespace
}  // namespace stretto
