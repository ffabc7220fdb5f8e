// The decoder with its cache, and how tokens are drawn.
#include "train/generate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/tiny_run.h"
#include "support/temp_dir.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

namespace stretto::test {
namespace {

Config config_for(const TempDir& dir, Positions positions, bool bias) {
  Config config = tiny_config(dir / "run");
  config.model.position_kind = positions;
  config.model.mlp = positions == Positions::alibi ? Mlp::gelu : Mlp::gelu_tanh;
  config.model.biases = Biases::all_or_none(bias);
  config.model.ffn = 4 * config.model.hidden;
  config.model.vocab = 256;
  config.train.steps = 3;
  return config;
}

// The cache gives the logits that the whole forward pass gives: their loss is the evaluation's.
TEST(Generate, DecodesWhatEvaluationSees) {
  struct Case {
    Positions positions;
    Precision precision;
    double limit;
  };
  for (const auto& [positions, precision, limit] :
       {Case{Positions::learned, Precision::fp32, 1e-5},
        Case{Positions::alibi, Precision::fp32, 1e-5},
        Case{Positions::learned, Precision::amp_bf16, 5e-3}}) {
    const TempDir dir(Where::memory);
    Config config = config_for(dir, positions, positions == Positions::learned);
    config.precision = precision;
    run(config);
    const Checkpoint checkpoint = checkpoint_of(config, 3);
    std::vector<int32_t> ids;
    for (int i = 0; i < 17; ++i) ids.push_back(i * 37 % 256);
    const auto source = memory_tokens("test", ids);
    EvalSettings settings;
    settings.config = eval_config(checkpoint);
    const EvalResult expected = evaluate_tokens(checkpoint, *source, settings);
    EXPECT_EQ(expected.tokens, 16);

    const auto backend = make_cpu_backend(1);
    Decoder decoder(*backend, checkpoint, eval_config(checkpoint), 16);
    double sum = 0;
    for (size_t i = 0; i < 16; ++i) {
      const std::vector<float>& logits = decoder.next(ids[i]);
      double total = 0;
      for (const float x : logits) {
        total += std::exp(static_cast<double>(x));
        // In the run's precision, and so in its memory.
        if (precision == Precision::amp_bf16) {
          EXPECT_EQ(to_float(to_bf16(x)), x);
        }
      }
      sum += std::log(total) - static_cast<double>(logits[static_cast<size_t>(ids[i + 1])]);
    }
    EXPECT_NEAR(sum / 16, expected.loss, limit);
    EXPECT_THROW(decoder.next(0), Error);
  }
}

// Past its capacity a model goes on as one that has read the newer half alone.
TEST(Generate, ForgetsTheOlderHalf) {
  for (const Positions positions : {Positions::learned, Positions::alibi}) {
    const TempDir dir(Where::memory);
    const Config config = config_for(dir, positions, true);
    run(config);
    const Checkpoint checkpoint = checkpoint_of(config, 3);
    const auto backend = make_cpu_backend(1);
    Decoder rolling(*backend, checkpoint, eval_config(checkpoint), 8);
    Decoder fresh(*backend, checkpoint, eval_config(checkpoint), 8);
    RollingDecoder reader(rolling);
    for (int32_t i = 0; i < 8; ++i) reader.next(i);
    EXPECT_FALSE(reader.forgot());
    for (int32_t i = 4; i < 8; ++i) fresh.next(i);
    for (int32_t i = 8; i < 12; ++i) EXPECT_EQ(reader.next(i), fresh.next(i)) << i;
    EXPECT_TRUE(reader.forgot());
    fresh.restart();
    for (int32_t i = 8; i < 12; ++i) fresh.next(i);
    EXPECT_EQ(reader.next(12), fresh.next(12)) << "and again";
    Decoder one(*backend, checkpoint, eval_config(checkpoint), 1);
    RollingDecoder single(one);
    for (int32_t i = 0; i < 3; ++i) single.next(i);
  }
}

TEST(Generate, ReadsNoFurtherThanItWasTrained) {
  Config config;
  config.model.positions = 128;
  config.seq_len = 32;
  config.model.position_kind = Positions::learned;
  EXPECT_EQ(context_limit(config), 32);
  config.seq_len = 256;
  EXPECT_EQ(context_limit(config), 128);
  config.seq_len = 32;
  config.model.position_kind = Positions::alibi;
  EXPECT_EQ(context_limit(config), 128);
}

TEST(Generate, SamplesAsAsked) {
  const std::vector<float> logits = {1, 3, 2, 3, -5};
  EXPECT_EQ(sample_token(logits, {0, 0, 1, 0}, 0), 1);
  std::vector<int> top_two(5, 0), nucleus(5, 0);
  for (uint64_t i = 0; i < 2000; ++i) {
    ++top_two[static_cast<size_t>(sample_token(logits, {1, 2, 1, 5}, i))];
    ++nucleus[static_cast<size_t>(sample_token(logits, {1, 0, 0.9, 5}, i))];
  }
  for (const double temperature : {0.5, 1.0, 3.0}) {
    std::vector<int> seen(5, 0);
    for (uint64_t i = 0; i < 2000; ++i) {
      ++seen[static_cast<size_t>(sample_token(logits, {temperature, 0, 1, 5}, i))];
    }
    const auto weight = [&](float x) { return std::exp(static_cast<double>(x) / temperature); };
    double total = 0;
    for (const float x : logits) total += weight(x);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(seen[i], 2000 * weight(logits[i]) / total, 80) << temperature << " " << i;
    }
  }
  EXPECT_EQ(top_two[1] + top_two[3], 2000);
  EXPECT_EQ(nucleus[0] + nucleus[4], 0);
  EXPECT_GT(nucleus[2], 0);
  EXPECT_EQ(sample_token(logits, {1, 0, 1, 5}, 3), sample_token(logits, {1, 0, 1, 5}, 3));
  const float never = -std::numeric_limits<float>::infinity();
  for (uint64_t i = 0; i < 2000; ++i) {
    EXPECT_EQ(sample_token({never, 0, never}, {1, 3, 1, 5}, i), 1);
  }
}

}  // namespace
}  // namespace stretto::test
