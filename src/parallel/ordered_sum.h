// Sums of device tensors in rank order, as the host transports take them (comm/reduce.h).
#pragma once

#include <span>

#include "backend/backend.h"

namespace stretto {

// Bytes of f32 scratch memory that add_in_order() needs; 0 where it adds in place.
size_t ordered_sum_scratch(DType type, int64_t count);

// out = out + parts[0] + parts[1] + ..., queued on the compute lane. Narrow types are summed in
// f32 and rounded once. f32, bf16 and f16.
void add_in_order(Backend& backend, Tensor out, std::span<const ConstTensor> parts, void* scratch);

}  // namespace stretto
