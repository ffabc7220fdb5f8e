#include "plan/softmax_rule.h"

#include <algorithm>
#include <bit>

namespace stretto::plan {
namespace {

// How many rows of the score matrix a block of 128 threads takes. A row is spread over a power of
// two of threads, at most a warp of 32; short rows are taken in pairs.
int64_t rows_per_block(int64_t row_length) {
  const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(row_length)));
  return 128 / std::min<int64_t>(32, padded) * (padded <= 128 ? 2 : 1);
}

}  // namespace

// From 2021-10-21 to 2022-03-06 Megatron-DeepSpeed calls get_batch_per_block(sq, sk, b, np), whose
// parameters are (b, np, sq, sk). So the number of heads is used in place of the sequence length.
int64_t fused_softmax_block(const Stack& stack, int64_t heads_per_rank) {
  if (stack.fused_softmax == FusedSoftmax::always) return 1;
  return std::max<int64_t>(4, rows_per_block(heads_per_rank));
}

bool softmax_is_fused(const Stack& stack, int64_t heads_per_rank, int64_t micro_batch) {
  return heads_per_rank * micro_batch % fused_softmax_block(stack, heads_per_rank) == 0;
}

}  // namespace stretto::plan
