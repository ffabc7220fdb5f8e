// When Megatron's fused softmax runs. Otherwise the scores pass through memory several times more,
// in fp32.
#pragma once

#include <cstdint>

#include "plan/stack.h"

namespace stretto::plan {

// The fused kernel needs (heads/tp) x micro-batch to be a multiple of this.
int64_t fused_softmax_block(const Stack& stack, int64_t heads_per_rank);

bool softmax_is_fused(const Stack& stack, int64_t heads_per_rank, int64_t micro_batch);

}  // namespace stretto::plan
