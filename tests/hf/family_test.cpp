// The tables of tensor names: complete, and their rows where ours are.
#include "hf/family.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "hf/settings.h"

namespace stretto::test {
namespace {

ModelShape shape_of(Positions positions, bool bias, bool tied) {
  ModelShape model{"m", 3, 32, 4, 100, 16, 128};
  model.position_kind = positions;
  model.mlp = Mlp::gelu;
  model.biases = Biases::all_or_none(bias);
  model.tied_embedding = tied;
  return model;
}

// Each value of our parameters is written once by an import, and each name is used once.
void expect_complete(const HfFamily& family, const ModelShape& model) {
  std::map<std::string, std::multiset<int64_t>> rows;
  std::set<std::string> theirs;
  for (const HfTensor& tensor : hf_tensors(family, model)) {
    EXPECT_TRUE(theirs.insert(tensor.name).second) << tensor.name;
    EXPECT_FALSE(tensor.absent);
    for (int64_t row = 0; row < tensor.rows; ++row) {
      rows[tensor.spec.name].insert(tensor.our_row ? tensor.our_row(row) : row);
    }
  }
  EXPECT_EQ(rows.size(), parameter_list(model).size());
  for (const ParameterSpec& spec : parameter_list(model)) {
    std::vector<int64_t> all(static_cast<size_t>(spec.rows));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(std::vector(rows[spec.name].begin(), rows[spec.name].end()), all) << spec.name;
  }
}

TEST(HfFamilies, TablesNameEveryParameterOnce) {
  for (const bool tied : {true, false}) {
    expect_complete(kGpt2Family, shape_of(Positions::learned, true, tied));
    expect_complete(kMptFamily, shape_of(Positions::alibi, false, tied));
  }
}

TEST(HfFamilies, TheOneThatFitsIsChosen) {
  EXPECT_EQ(choose_family(shape_of(Positions::learned, true, true)).family, &kGpt2Family);
  EXPECT_TRUE(choose_family(shape_of(Positions::learned, false, false)).findings.empty());
  EXPECT_EQ(choose_family(shape_of(Positions::alibi, false, true)).family, &kMptFamily);
  EXPECT_TRUE(choose_family(shape_of(Positions::alibi, false, true)).findings.empty());
}

// What the file of no family says would be lost.
TEST(HfFamilies, WhatCannotBeExportedIsNamed) {
  using Keys = std::vector<std::pair<std::string, Severity>>;
  const auto found = [](Positions positions, auto change) {
    ModelShape model = shape_of(positions, positions == Positions::learned, true);
    change(model);
    Keys keys;
    for (const Finding& f : choose_family(model).findings) keys.emplace_back(f.key, f.severity);
    return keys;
  };
  const auto gpt2 = [&](auto change) { return found(Positions::learned, change); };
  const auto mpt = [&](auto change) { return found(Positions::alibi, change); };
  const auto error = [](const char* key) { return Keys{{key, Severity::error}}; };
  EXPECT_EQ(mpt([](ModelShape& m) { m.biases = {}; }), error("model.bias"));
  EXPECT_EQ(mpt([](ModelShape& m) { m.ffn = 96; }), error("model.ffn"));
  EXPECT_EQ(mpt([](ModelShape& m) { m.mlp = Mlp::gelu_tanh; }),
            (Keys{{"model.gelu", Severity::advice}}));
  EXPECT_EQ(gpt2([](ModelShape& m) { m.ffn = 96; }), Keys{});
  EXPECT_EQ(gpt2([](ModelShape& m) { m.mlp = Mlp::gelu_tanh; }), Keys{});
  EXPECT_EQ(gpt2([](ModelShape& m) { m.biases.qkv = false; }), error("model.bias"));
  EXPECT_EQ(gpt2([](ModelShape& m) { m.mlp = Mlp::relu; }), error("model.name"));
  EXPECT_EQ(gpt2([](ModelShape& m) { m.norm_eps = 1e-6; }), error("model.name"));
  EXPECT_EQ(gpt2([](ModelShape& m) { m.kv_heads = 2; }), error("model.name"));
  EXPECT_EQ(gpt2([](ModelShape& m) { m.position_kind = Positions::rope; }),
            error("model.position_kind"));
}

// A family as there are many: q, k and v apart, or the rows of each head together.
int64_t third(const ModelShape& m) { return m.hidden; }
int64_t whole(const ModelShape& m) { return 3 * m.hidden; }
int64_t key_row(const ModelShape& m, int64_t row) { return m.hidden + row; }
int64_t by_head(const ModelShape& m, int64_t row) {
  const int64_t d = m.head_size(), head = row / (3 * d), part = row / d % 3;
  return part * m.hidden + head * d + row % d;
}
constexpr HfRows kKeys = {third, key_row}, kByHead = {whole, by_head};

TEST(HfFamilies, RowsCanBeSomeOrInAnotherOrder) {
  constexpr HfName kNames[] = {{"h.{}.attn.qkv.bias", "{}.k.bias", false, &kKeys},
                               {"h.{}.attn.qkv.weight", "{}.k.weight", true, &kKeys},
                               {"h.{}.attn.qkv.weight", "{}.qkv.weight", false, &kByHead}};
  HfFamily family = kGpt2Family;
  family.names = kNames;
  const ModelShape model{"m", 1, 4, 2, 8, 8, 16};  // two heads of two
  const std::vector<HfTensor> tensors = hf_tensors(family, model);
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].shape(), (std::vector<int64_t>{4}));
  EXPECT_EQ(tensors[1].name, "0.k.weight");
  EXPECT_EQ(tensors[2].shape(), (std::vector<int64_t>{12, 4}));

  std::vector<float> ours(48), theirs(48, -1), back(48, -1);
  std::iota(ours.begin(), ours.end(), 0.0f);
  to_stored(tensors[0], ours.data(), theirs.data());
  EXPECT_EQ(std::vector(theirs.begin(), theirs.begin() + 5), (std::vector<float>{4, 5, 6, 7, -1}));
  to_stored(tensors[1], ours.data(), theirs.data());
  EXPECT_EQ(std::vector(theirs.begin(), theirs.begin() + 8),
            (std::vector<float>{16, 20, 24, 28, 17, 21, 25, 29}));
  from_stored(tensors[1], theirs.data(), back.data());
  for (size_t i = 0; i < 48; ++i) EXPECT_EQ(back[i], i < 16 || i >= 32 ? -1 : ours[i]) << i;
  // q, k and v of head 0, then those of head 1.
  to_stored(tensors[2], ours.data(), theirs.data());
  std::vector<float> first;  // of each row
  for (size_t row = 0; row < 12; ++row) first.push_back(theirs[4 * row] / 4);
  EXPECT_EQ(first, (std::vector<float>{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}));
  from_stored(tensors[2], theirs.data(), back.data());
  EXPECT_EQ(back, ours);
}

}  // namespace
}  // namespace stretto::test
