// Single rows of attention scores in SIMD, for kernels with products of their own.
#pragma once

#include <cstdint>

namespace stretto {

// s[0, visible): scaled and biased, then exp relative to the new running maximum. Returns the
// factor by which earlier results of the row must be multiplied. `distance` is that of key 0 to the
// query.
float attention_softmax_row(float* s, int64_t visible, float scale, float slope, float distance,
                            float* max, float* sum);
void attention_scale_row(float* row, int64_t count, float factor);

// Turns scores into probabilities, and dp into ds = p (dp - delta) scale.
void attention_backward_row(float* p, float* dp, int64_t visible, float scale, float slope,
                            float distance, float lse, float delta);
float attention_row_dot(const float* a, const float* b, int64_t count);

}  // namespace stretto
