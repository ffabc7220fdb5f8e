// Every model of the registry, under every option: FLOPs by formula, FLOPs counted over the list of
// matrix products, parameters by formula and over the list of parameters.
#include "config/registry.h"

#include <gtest/gtest.h>

#include "account/flops.h"
#include "account/parameters.h"
#include "account/products.h"
#include "account/shapes.h"

namespace stretto {
namespace {

using testing::Attention;
using testing::matrix_products;
using testing::MatrixProduct;
using testing::Phase;

struct Counted {
  double model = 0, recompute = 0;
};

Counted count(const ModelShape& model, int64_t batch, int64_t seq, Checkpointing plan, bool fused) {
  Counted sum;
  for (const MatrixProduct& p :
       matrix_products(model, batch, seq, Attention::causal, plan, fused)) {
    (p.phase == Phase::recompute ? sum.recompute : sum.model) += p.flops();
  }
  return sum;
}

class Registry : public ::testing::TestWithParam<ModelShape> {};

TEST_P(Registry, FlopsByFormulaEqualFlopsCounted) {
  const ModelShape& model = GetParam();
  for (int64_t seq : {int64_t{1}, int64_t{512}, model.positions}) {
    for (auto plan : {Checkpointing::none, Checkpointing::gelu, Checkpointing::selective,
                      Checkpointing::full}) {
      for (Convention convention : {Convention::causal, Convention::hardware}) {
        const double tokens = 6.0 * static_cast<double>(seq);
        const auto flops = flops_per_token(convention, model, seq, plan);
        const auto counted = count(model, 6, seq, plan, convention == Convention::hardware);
        EXPECT_NEAR(flops.model.total() * tokens / counted.model, 1, 1e-12);
        EXPECT_NEAR(flops.recompute.total() * tokens, counted.recompute, 1e-12 * counted.model);
      }
    }
  }
}

TEST_P(Registry, DenseAttentionOfTheParameterConventions) {
  const ModelShape& model = GetParam();
  const int64_t seq = model.positions;
  double attention = 0;
  for (const MatrixProduct& p :
       matrix_products(model, 1, seq, Attention::dense, Checkpointing::none, false)) {
    const bool part = p.product == Product::scores || p.product == Product::values;
    if (part) attention += p.flops() / static_cast<double>(seq);
  }
  const auto mpt = flops_per_token(Convention::mpt, model, seq, Checkpointing::none);
  EXPECT_NEAR(attention / (mpt.model.total() - mpt.model.without_attention()), 1, 1e-9);
}

TEST_P(Registry, ParametersByFormulaEqualTheList) {
  EXPECT_EQ(parameter_count(GetParam()), testing::parameters_by_formula(GetParam()));
}

std::vector<ModelShape> shapes() {
  std::vector<ModelShape> all;
  for (const RegistryModel& model : registry_models()) all.push_back(model.shape);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Registry, ::testing::ValuesIn(shapes()), [](const auto& tested) {
  std::string name = tested.param.name;
  for (char& c : name) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!word) c = '_';
  }
  return name;
});

}  // namespace
}  // namespace stretto
