// What attention's backward pass on a GPU needs beside its operands, by cuDNN's own rules
// (cudnn-frontend, scaled_dot_product_flash_attention.h).
#include <gtest/gtest.h>

#include "account/memory.h"
#include "shapes.h"

namespace stretto {
namespace {

using testing::gpt;

constexpr int64_t kBatch = 16, kHeads = 16;

RankShape with_heads_of(int64_t head_size, int64_t seq_len) {
  RankShape shape;
  shape.model = gpt(2, kHeads * head_size, kHeads, 50304, seq_len);
  shape.micro_batch = kBatch;
  shape.seq_len = seq_len;
  shape.precision = Precision::amp_bf16;
  shape.train = true;
  return shape;
}

// What repeatable attention needs more.
double extra(int64_t head_size, int64_t seq_len, bool hopper = false) {
  const RankShape shape = with_heads_of(head_size, seq_len);
  return static_cast<double>(gpu_overhead(shape, true, hopper)) -
         static_cast<double>(gpu_overhead(shape, false, hopper));
}

// Repeatable, cuDNN keeps the gradients of all scores in 16 bits; otherwise dq in f32.
TEST(GpuOverhead, RepeatableAttentionKeepsAllScoresWhateverTheHeadSize) {
  for (const int64_t size : {32, 64, 72, 80, 96, 112, 120, 128}) {
    const double scores = 2.0 * kBatch * kHeads * 2048 * 2048;
    const double dq = 4.0 * kBatch * 2048 * kHeads * static_cast<double>(size);
    EXPECT_EQ(extra(size, 2048), scores - dq) << size;
  }
  for (const int64_t size : {32, 80, 96, 112}) {  // our own kernels do 64 and 128 only
    EXPECT_EQ(extra(size, 2048, true), extra(size, 2048)) << size;
  }
}

// In blocks of 64 rows and 128 columns.
TEST(GpuOverhead, ScoresOfRepeatableAttentionArePadded) {
  for (const int64_t size : {64, 80}) {
    const double scores = 2.0 * kBatch * kHeads * 1984 * 2048;
    const double dq = 4.0 * kBatch * 1930 * kHeads * static_cast<double>(size);
    EXPECT_EQ(extra(size, 1930), scores - dq) << size;
    EXPECT_EQ(extra(size, 1930, true), extra(size, 1930)) << size;
  }
}

// Beside either, a sum in f32 per row of scores.
TEST(GpuOverhead, AttentionKeepsASumPerRow) {
  const auto grown = [](bool repeatable) {
    const double longer =
        static_cast<double>(gpu_overhead(with_heads_of(96, 4096), repeatable, false));
    return longer - static_cast<double>(gpu_overhead(with_heads_of(96, 2048), repeatable, false));
  };
  const double sums = 4.0 * kBatch * kHeads * 2048;
  EXPECT_EQ(grown(false), 4.0 * kBatch * 2048 * kHeads * 96 + sums);
  EXPECT_EQ(grown(true), 2.0 * kBatch * kHeads * (4096.0 * 4096 - 2048.0 * 2048) + sums);
}

// 8-bit training keeps a layer's gradient rounded, as it is and transposed, beside the operands.
TEST(GpuOverhead, EightBitTrainingKeepsTwoRoundedGradients) {
  RankShape shape = with_heads_of(64, 2048);
  shape.model.ffn = 8 * shape.model.hidden;
  shape.precision = Precision::amp_fp8;
  const size_t training = gpu_overhead(shape, false, false);
  shape.train = false;
  const int64_t tokens = kBatch * 2048, widest = shape.model.ffn;
  EXPECT_EQ(training - gpu_overhead(shape, false, false), static_cast<size_t>(2 * tokens * widest));
}

}  // namespace
}  // namespace stretto
