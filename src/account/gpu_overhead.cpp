// Memory of a GPU that no plan of ours lists: the driver's, and that of libraries and kernels.
#include <algorithm>

#include "account/memory.h"
#include "base/ceil_div.h"

namespace stretto {
namespace {

// What the backward pass of attention on a GPU needs beside its operands. cuDNN's and ours for
// Hopper keep one or two values per row of scores, and dq in f32; cuDNN's repeatable one instead of
// dq the gradients of all scores. Our own for ALiBi, f32 and other head sizes keeps rows only.
size_t attention_scratch(const RankShape& shape, bool repeatable, bool hopper) {
  const int64_t tokens = shape.tokens(), hidden = shape.model.q_width() / shape.tp;
  const int64_t heads = shape.model.heads / shape.tp, head = shape.model.head_size();
  int64_t words = 0;
  if (shape.model.position_kind == Positions::alibi || head > 128 || head % 8 != 0 ||
      shape.precision == Precision::fp32) {
    words = tokens * heads * 2;
  } else if (hopper && (head == 64 || head == 128) && shape.seq_len % 128 == 0 &&
             shape.precision != Precision::amp_fp16) {
    // Beside dq: two values per row of scores, sums of 64 rows, and a counter per 64 rows of 64
    // columns (backend/cuda/attention_dq.cu).
    words =
        tokens * hidden + 2 * tokens * heads + tokens / 64 * hidden + tokens / 64 * hidden / 64 + 1;
  } else {
    // The gradients of scores have 16 bits, whatever the head size, in blocks of 64 rows and 128
    // columns (cudnn-frontend, scaled_dot_product_flash_attention.h).
    const int64_t scores = round_up(shape.seq_len, 64) * round_up(shape.seq_len, 128);
    words =
        tokens * heads + (repeatable ? shape.micro_batch * heads * scores / 2 : tokens * hidden);
  }
  return static_cast<size_t>(words) * sizeof(float);
}

}  // namespace

size_t gpu_overhead(const RankShape& shape, bool repeatable, bool hopper) {
  constexpr size_t kMiB = size_t{1} << 20;
  constexpr size_t kDriver = 550 * kMiB;  // context and loaded kernels, measured on an H200
  constexpr size_t kLibrary = 64 * kMiB;  // cuBLASLt
  constexpr size_t kPartialSums = 64 * kMiB;
  const size_t attention = shape.train ? attention_scratch(shape, repeatable, hopper) : 0;
  size_t scratch = std::max(kPartialSums, attention), gradients = 0;
  if (shape.precision == Precision::amp_fp8) {
    int64_t widest = 0, weight = 0;
    for (const ProductSpec& product : layer_table(shape.model, 0).products) {
      const int64_t n = product.n_of(shape.tp), k = product.k_of(shape.tp);
      widest = std::max({widest, n, k});
      weight = std::max(weight, n * k);
    }
    const auto rows = static_cast<size_t>(shape.tokens() * widest);
    scratch = std::max(scratch, rows + static_cast<size_t>(weight));  // input and weight, rounded
    if (shape.train) gradients = 2 * rows;                            // as they are and transposed
  }
  return kDriver + kLibrary + scratch + gradients;
}

}  // namespace stretto
