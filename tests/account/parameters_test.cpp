// The vocabulary as ranks hold it: cut evenly, in rows that matrix units take.
#include "account/parameters.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "account/shapes.h"

namespace stretto {
namespace {

TEST(PaddedVocabulary, TakesTheNextMultipleOf64Or8) {
  const auto padded = [](int64_t vocab, int64_t tp) {
    ModelShape model;
    model.vocab = vocab;
    return padded_vocab(model, tp);
  };
  EXPECT_EQ(padded(50257, 1), 50304);
  EXPECT_EQ(padded(50257, 2), 50304);
  EXPECT_EQ(padded(50257, 8), 50688);
  EXPECT_EQ(padded(50368, 1), 50368);
  EXPECT_EQ(padded(256, 4), 256);  // bytes
  EXPECT_EQ(padded(1023, 1), 1024);
  EXPECT_EQ(padded(61, 2), 64);
  EXPECT_EQ(padded(1, 1), 8);
}

TEST(PaddedVocabulary, CutsEvenlyAndAddsLittle) {
  EXPECT_TRUE(rc::check([] {
    ModelShape model;
    model.vocab = *rc::gen::inRange<int64_t>(1, 300'000);
    const int64_t tp = *rc::gen::inRange<int64_t>(1, 65);
    const int64_t padded = padded_vocab(model, tp), added = padded - model.vocab;
    RC_ASSERT(padded % (8 * tp) == 0);
    RC_ASSERT(added >= 0 && (added < 8 * tp || added * 16 < model.vocab));
  }));
}

// Only the tables grow, and what they gain is known.
TEST(PaddedVocabulary, LeavesAllOtherParametersAsTheyAre) {
  ModelShape model = testing::gpt(2, 16, 2, 61, 32);
  model.tied_embedding = false;
  const auto own = parameter_list(model), held = parameter_list(model, 3);
  ASSERT_EQ(own.size(), held.size());
  int64_t tables = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(own[i].name, held[i].name);
    EXPECT_EQ(own[i].rows, real_rows(held[i], model)) << own[i].name;
    if (held[i].rows == own[i].rows) continue;
    EXPECT_EQ(held[i].rows, 72) << own[i].name;
    ++tables;
  }
  EXPECT_EQ(tables, 2);  // wte and head
}

// As GPT-2 begins: what ends a branch is smaller, by the root of the number of branches.
TEST(InitialSpread, IsThatOfGpt2) {
  ModelShape model = testing::gpt(8, 16, 2, 61, 32);
  model.tied_embedding = false;
  for (const ParameterSpec& spec : parameter_list(model)) {
    const bool ends_branch =
        spec.name.ends_with("attn.proj.weight") || spec.name.ends_with("mlp.down.weight");
    const bool matrix = !spec.vector();
    EXPECT_EQ(spec.init == Init::normal, matrix) << spec.name;
    EXPECT_EQ(spec.init == Init::ones, !matrix && spec.name.ends_with(".weight")) << spec.name;
    EXPECT_EQ(spec.decay, matrix) << spec.name;
    if (matrix) {
      EXPECT_DOUBLE_EQ(spec.init_std, ends_branch ? 0.02 / 4 : 0.02) << spec.name;
    }
  }
}

}  // namespace
}  // namespace stretto
