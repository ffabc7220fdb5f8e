// What a rank on a GPU is predicted to need, against what one H200 held after five steps
// or more (tools/gpu-train-bench): the driver's own memory and all workspaces included.
#include <gtest/gtest.h>

#include "config/reader.h"
#include "train/rank_plan.h"

namespace stretto {
namespace {

double predicted_bytes(const std::vector<std::string>& words, bool hopper = true) {
  const Config config = load_config(words).config;
  const RankShape shape = rank_shape(config, {});
  return static_cast<double>(memory_totals(memory_plan(shape)).total +
                             device_overhead(config, shape, hopper));
}

TEST(DeviceMemory, PredictedWithinThreePercent) {
  struct Point {
    const char *model, *precision, *recomputed;
    int seq_len, micro_batch;
    double measured;  // GiB
  };
  const Point points[] = {{"mpt-125m", "amp_bf16", "none", 1024, 64, 22.6},
                          {"mpt-125m", "amp_bf16", "none", 2048, 64, 41.2},
                          {"mpt-350m", "amp_bf16", "none", 2048, 32, 56.3},
                          {"mpt-760m", "amp_bf16", "none", 2048, 24, 68.4},
                          {"mpt-1b", "amp_bf16", "none", 2048, 16, 70.6},
                          {"mpt-3b", "amp_bf16", "gelu", 2048, 8, 72.2},
                          {"mpt-3b", "amp_fp8", "gelu", 2048, 8, 72.5},
                          {"mpt-3b", "amp_fp8", "gelu", 512, 40, 79.6},
                          {"mpt-7b", "bf16", "selective", 2048, 6, 82.5}};
  for (const Point& p : points) {
    const double predicted = predicted_bytes(
        {p.model, fmt::format("seq_len={}", p.seq_len),
         fmt::format("micro_batch={}", p.micro_batch),
         fmt::format("global_batch={}", p.micro_batch), fmt::format("precision={}", p.precision),
         fmt::format("activation_checkpointing={}", p.recomputed), "repeatable=false",
         "device=cuda"});
    EXPECT_NEAR(predicted / 0x1p30 / p.measured, 1.0, 0.03) << p.model << " T " << p.seq_len;
  }
}

// The memory table of docs/cuda_speed.md, each row with the settings of tools/gpu-train-bench.
TEST(DeviceMemory, PublishedRowsWithinOnePercent) {
  struct Row {
    double published;  // GiB
    std::vector<std::string> words;
  };
  const std::string bf16_gradients = "gradient_dtype=bf16", gelu = "activation_checkpointing=gelu";
  const Row rows[] = {
      {22.6, {"mpt-125m", "seq_len=1024", "micro_batch=64", "global_batch=64"}},
      {41.2, {"mpt-125m", "seq_len=2048", "micro_batch=64", "global_batch=64"}},
      {56.3, {"mpt-350m", "seq_len=2048", "micro_batch=32", "global_batch=32"}},
      {67.0, {"mpt-760m", "seq_len=2048", "micro_batch=24", "global_batch=24", bf16_gradients}},
      {68.1, {"mpt-1b", "seq_len=2048", "micro_batch=16", "global_batch=16", bf16_gradients}},
      {68.3,
       {"model.name=mpt-1b", "model.positions=8192", "seq_len=8192", "micro_batch=4",
        "global_batch=4", bf16_gradients}},
      {76.5,
       {"mpt-3b", "seq_len=2048", "micro_batch=8", "global_batch=8", bf16_gradients,
        "logits_chunk=800MiB"}},
      {87.2,
       {"mpt-7b", "seq_len=2048", "micro_batch=6", "global_batch=6", "precision=bf16", gelu,
        "logits_chunk=384MiB"}},
      {22.6,
       {"gpt2-124m", "model.vocab=50304", "seq_len=1024", "micro_batch=64", "global_batch=64"}},
      {76.8,
       {"mpt-3b", "seq_len=2048", "micro_batch=8", "global_batch=8", "precision=amp_fp8",
        bf16_gradients, "logits_chunk=800MiB"}},
      {112.9,
       {"mpt-7b", "seq_len=2048", "micro_batch=4", "global_batch=12", "precision=amp_fp8",
        bf16_gradients, gelu}}};
  for (const Row& row : rows) {
    std::vector<std::string> words = {row.words[0], "precision=amp_bf16", "repeatable=false",
                                      "device=cuda"};
    words.insert(words.end(), row.words.begin() + 1, row.words.end());
    const double gib = predicted_bytes(words) / 0x1p30;
    EXPECT_NEAR(gib / row.published, 1.0, 0.01) << fmt::format("{}", fmt::join(row.words, " "));
  }
}

// What repeatable attention keeps more than the other, in GiB. cuDNN's: dq once per block of keys
// instead of once, as seen on an H200: 24.44 and 23.13 GiB, 75.24 and 73.49 GiB. Ours, for Hopper:
// nothing.
TEST(DeviceMemory, RepeatableAttentionIsCounted) {
  const auto extra = [](const char* model, const char* seq_len, const char* micro_batch,
                        bool hopper) {
    const std::vector<std::string> words = {model,         seq_len,           micro_batch,
                                            "device=cuda", "global_batch=64", "precision=amp_bf16"};
    std::vector<std::string> free = words;
    free.push_back("repeatable=false");
    return (predicted_bytes(words, hopper) - predicted_bytes(free, hopper)) / 0x1p30;
  };
  EXPECT_NEAR(extra("mpt-125m", "seq_len=1024", "micro_batch=64", false), 24.44 - 23.13, 0.02);
  EXPECT_NEAR(extra("mpt-1b", "seq_len=2048", "micro_batch=16", false), 75.24 - 73.49, 0.02);
  EXPECT_GT(extra("mpt-1b", "seq_len=2000", "micro_batch=16", true), 1);
  EXPECT_EQ(extra("mpt-1b", "seq_len=2048", "micro_batch=16", true), 0);
  EXPECT_EQ(extra("mpt-125m", "seq_len=1024", "micro_batch=64", true), 0);
}

TEST(DeviceMemory, TheCpuNeedsNothingBesideThePlan) {
  const Config config = load_config({"mpt-125m", "micro_batch=2", "device=cpu"}).config;
  EXPECT_EQ(device_overhead(config, rank_shape(config, {})), 0u);
}

TEST(DeviceMemory, EightBitCopiesAreCounted) {
  const auto bytes = [](const char* precision) {
    return predicted_bytes({"mpt-3b", "seq_len=2048", "micro_batch=8", "global_batch=8",
                            fmt::format("precision={}", precision), "device=cuda"});
  };
  // The largest output gradient, (tokens, 4 C), as it is and transposed.
  EXPECT_GE(bytes("amp_fp8") - bytes("amp_bf16"), 2.0 * 8 * 2048 * 4 * 2560);
}

}  // namespace
}  // namespace stretto
