#include "plan/softmax_rule.h"

#include <algorithm>
#include <bit>

namespace stretto::plan {
namespace {

// Rows of the score matrix that one block of 128 threads takes, by the length of a row: a row is
// spread over a power of two of threads, at most a warp of 32, and short rows go two at a time.
int64_t rows_per_block(int64_t row_length) {
  const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(row_length)));
  return 128 / std::min<int64_t>(32, padded) * (padded <= 128 ? 2 : 1);
}

}  // namespace

// Megatron-DeepSpeed from 2021-10-21 to 2022-03-06 calls get_batch_per_block(sq, sk, b, np), whose
// parameters are (b, np, sq, sk): the number of heads stands where the sequence length should.
int64_t fused_softmax_block(const Stack& stack, int64_t heads_per_rank) {
  if (stack.fused_softmax == FusedSoftmax::always) return 1;
  return std::max<int64_t>(4, rows_per_block(heads_per_rank));
}

bool softmax_is_fused(const Stack& stack, int64_t heads_per_rank, int64_t micro_batch) {
  return heads_per_rank * micro_batch % fused_softmax_block(stack, heads_per_rank) == 0;
}

}  // namespace stretto::plan
