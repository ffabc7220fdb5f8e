// Single rows of attention scores in SIMD, for kernels that multiply in their own way.
#pragma once

#include <cstdint>

namespace stretto {

// s[0, visible): scaled and biased, then exp relative to the new running maximum; returns the
// factor by which earlier results of the row shrink. `distance` is that of key 0 to the query.
float attention_softmax_row(float* s, int64_t visible, float scale, float slope, float distance,
                            float* max, float* sum);
void attention_scale_row(float* row, int64_t count, float factor);

// Scores become probabilities, dp becomes ds = p (dp - delta) scale.
void attention_backward_row(float* p, float* dp, int64_t visible, float scale, float slope,
                            float distance, float lse, float delta);
float attention_row_dot(const float* a, const float* b, int64_t count);

}  // namespace stretto
