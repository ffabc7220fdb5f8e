// The layer table against parameter counts by hand, published counts, and slow sums.
#include "account/layer_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "account/flops.h"
#include "account/memory.h"
#include "account/parameters.h"
#include "account/shapes.h"

namespace stretto {
namespace {

using testing::arbitrary_shape;
using testing::gpt;
using testing::parameters_by_formula;

TEST(LayerTable, CountsAGptAsTheFormulaDoes) {
  EXPECT_TRUE(rc::check([] {
    const ModelShape shape = arbitrary_shape();
    int64_t listed = 0;
    for (const ParameterSpec& spec : parameter_list(shape)) listed += spec.count();
    RC_ASSERT(listed == parameters_by_formula(shape));
    RC_ASSERT(parameter_count(shape) == listed);
  }));
}

ModelShape llama(int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads, int64_t ffn,
                 int64_t vocab) {
  ModelShape shape = gpt(layers, hidden, heads, vocab, 8192);
  shape.kv_heads = kv_heads;
  shape.ffn = ffn;
  shape.position_kind = Positions::rope;
  shape.norm = Norm::rms;
  shape.mlp = Mlp::swiglu;
  shape.biases = Biases::all_or_none(false);
  shape.tied_embedding = false;
  return shape;
}

// Counts that the models' own pages and checkpoints state.
TEST(LayerTable, CountsPublishedDecoders) {
  EXPECT_EQ(parameter_count(llama(32, 4096, 32, 32, 11008, 32000)), 6738415616);   // Llama 2 7B
  EXPECT_EQ(parameter_count(llama(32, 4096, 32, 8, 14336, 128256)), 8030261248);   // Llama 3 8B
  EXPECT_EQ(parameter_count(llama(80, 8192, 64, 8, 28672, 128256)), 70553706496);  // Llama 3 70B
  EXPECT_EQ(parameter_count(llama(32, 4096, 32, 8, 14336, 32000)), 7241732096);    // Mistral 7B

  ModelShape qwen2 = llama(28, 3584, 28, 4, 18944, 152064);
  qwen2.biases.qkv = true;
  EXPECT_EQ(parameter_count(qwen2), 7615616512);  // Qwen2.5 7B

  ModelShape qwen3 = llama(28, 1024, 16, 8, 3072, 151936);
  qwen3.head_dim = 128;
  qwen3.qk_norm = QkNorm::head;
  qwen3.tied_embedding = true;
  EXPECT_EQ(parameter_count(qwen3), 596049920);  // Qwen3 0.6B

  ModelShape gemma = llama(26, 2304, 8, 4, 9216, 256000);
  gemma.head_dim = 256;
  gemma.mlp = Mlp::geglu;
  gemma.order = Order::sandwich;
  gemma.tied_embedding = true;
  EXPECT_EQ(parameter_count(gemma), 2614341888);  // Gemma 2 2B

  ModelShape mixtral = llama(32, 4096, 32, 8, 14336, 32000);
  mixtral.experts = {8, 2, 14336, 0};
  mixtral.pattern = {{0, true}};
  EXPECT_EQ(parameter_count(mixtral), 46702792704);  // Mixtral 8x7B
}

// Every rank's runs together are the whole, once, for blocks of any kind.
TEST(LayerTable, ShardsOfEveryWeightCoverItOnce) {
  ModelShape shape = llama(2, 64, 8, 4, 24, 97);
  shape.head_dim = 12;
  shape.qk_norm = QkNorm::width;
  shape.experts = {3, 2, 20, 8};
  shape.pattern = {{0, false}, {0, true}};
  for (const int64_t tp : {1, 2, 4}) {
    for (const ParameterSpec& spec : parameter_list(shape, tp)) {
      std::vector<int> seen(static_cast<size_t>(spec.count()));
      const int64_t copies = spec.cut == Cut::none() ? 1 : tp;
      for (int64_t rank = 0; rank < copies; ++rank) {
        int64_t held = 0;
        for (const stretto::Run& run : shard_runs(spec, tp, rank)) {
          held += run.count;
          for (int64_t i = 0; i < run.count; ++i) {
            ++seen[static_cast<size_t>(run.global_begin + i)];
          }
        }
        EXPECT_EQ(held, shard_count(spec, tp)) << spec.name;
      }
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), spec.count()) << spec.name;
    }
  }
}

// Gate and up, and queries, keys and values, are blocks of their own: a rank holds a part of each.
TEST(LayerTable, RanksHoldAPartOfEachBlock) {
  const ModelShape shape = llama(1, 64, 8, 2, 24, 98);
  for (const ParameterSpec& spec : parameter_list(shape)) {
    const auto runs = shard_runs(spec, 2, 1);
    if (spec.weight == Weight::up && spec.role == Role::layer) {
      ASSERT_EQ(runs.size(), 2u);
      EXPECT_EQ(runs[0].global_begin, 12 * 64);
      EXPECT_EQ(runs[1].global_begin, (24 + 12) * 64);
    }
    if (spec.weight == Weight::qkv && spec.role == Role::layer) {
      ASSERT_EQ(runs.size(), 3u);
      EXPECT_EQ(runs[0].count, 32 * 64);  // four heads of 8
      EXPECT_EQ(runs[1].global_begin, (64 + 8) * 64);
      EXPECT_EQ(runs[2].global_begin, (64 + 16 + 8) * 64);
      EXPECT_EQ(runs[2].count, 8 * 64);
    }
  }
}

// Windows and grouped heads count what is computed: query i sees the last `window` keys.
TEST(LayerTable, WindowsAndGroupedHeadsCountWhatIsComputed) {
  EXPECT_TRUE(rc::check([] {
    ModelShape shape = llama(4, 64, 8, 2, 24, 97);
    shape.head_dim = 16;
    const int64_t window = *rc::gen::inRange<int64_t>(1, 40);
    const int64_t seq = *rc::gen::inRange<int64_t>(1, 60);
    shape.pattern = {{window, false}, {0, false}};
    int64_t keys = 0;  // of a local and a global layer, all queries
    for (int64_t i = 0; i < seq; ++i) keys += std::min(i + 1, window) + (i + 1);
    const double scores = 3.0 * 2 * 2 * 8 * 16 * static_cast<double>(keys);
    const auto flops = flops_per_token(Convention::causal, shape, seq, Checkpointing::none);
    RC_ASSERT(std::abs(flops.model[Product::scores] * static_cast<double>(seq) - scores) <=
              1e-9 * scores);
    RC_ASSERT(flops.model[Product::qkv] == 6.0 * 4 * (8 + 2 + 2) * 16 * 64);
    RC_ASSERT(flops.model[Product::up] == 6.0 * 4 * 2 * 24 * 64);
  }));
}

// What a tensor may lie over is at least as large, whatever the shape: heads wider than the stream,
// narrow MLPs, logits smaller and larger than gradients.
TEST(MemoryPlan, WhatSharesMemoryFits) {
  EXPECT_TRUE(rc::check([] {
    RankShape shape;
    shape.model = llama(2, 8 * *rc::gen::inRange<int64_t>(1, 9), 4, 2,
                        4 * *rc::gen::inRange<int64_t>(1, 99), *rc::gen::inRange<int64_t>(8, 3000));
    shape.model.head_dim = 4 * *rc::gen::inRange<int64_t>(1, 17);
    shape.micro_batch = *rc::gen::inRange<int64_t>(1, 4);
    shape.seq_len = 2 * *rc::gen::inRange<int64_t>(1, 33);
    shape.tp = *rc::gen::element<int64_t>(1, 2);
    shape.checkpointing = testing::arbitrary_checkpointing();
    shape.split_backward = *rc::gen::arbitrary<bool>();
    shape.chunks = {{0, 1}};
    const auto plan = memory_plan(shape);
    for (const TensorSpec& spec : plan) {
      if (spec.over.empty()) continue;
      const auto base = std::find_if(plan.begin(), plan.end(),
                                     [&](const TensorSpec& s) { return s.label == spec.over; });
      RC_ASSERT(base != plan.end());
      RC_ASSERT(base < plan.begin() + (&spec - plan.data()));
      const auto bytes = [](const TensorSpec& s) {  // not rounded
        return static_cast<size_t>(s.shape.count()) * dtype_size(s.type);
      };
      RC_ASSERT(bytes(spec) <= bytes(*base));
    }
  }));
}

}  // namespace
}  // namespace stretto
