// Initial weights: a function of (seed, parameter name, global element index), so that a shard on
// any topology equals the slice of the whole.
#pragma once

#include <functional>

#include "account/flat_layout.h"

namespace stretto {

// Calls visit(unit, flat_begin, values, count), stretch by stretch, with the initial values of
// every parameter in the layout.
using ValueVisitor =
    std::function<void(size_t unit, int64_t begin, const float* values, int64_t count)>;
void initial_values(const FlatLayout& layout, int64_t vocab, int64_t tp, int64_t tp_rank,
                    uint64_t seed, const ValueVisitor& visit);

}  // namespace stretto
