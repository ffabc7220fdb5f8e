// Cross-entropy by slow, obvious loops in double. Logits: (rows, width), of which `columns` count.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace stretto::reference {

using Values = std::vector<double>;

inline Values row_lse(const Values& logits, size_t width, size_t columns) {
  Values lse(logits.size() / width);
  for (size_t r = 0; r < lse.size(); ++r) {
    double top = -INFINITY, sum = 0;
    for (size_t c = 0; c < columns; ++c) top = std::max(top, logits[r * width + c]);
    for (size_t c = 0; c < columns; ++c) sum += std::exp(logits[r * width + c] - top);
    lse[r] = top + std::log(sum);
  }
  return lse;
}

// Sum over rows of -log softmax at the target; negative targets are left out.
inline double cross_entropy(const Values& logits, const Values& targets, size_t columns) {
  const size_t width = logits.size() / targets.size();
  const Values lse = row_lse(logits, width, columns);
  double loss = 0;
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] < 0) continue;
    loss += lse[r] - logits[r * width + static_cast<size_t>(targets[r])];
  }
  return loss;
}

inline Values cross_entropy_backward(const Values& logits, const Values& targets, size_t columns,
                                     double scale) {
  const size_t width = logits.size() / targets.size();
  const Values lse = row_lse(logits, width, columns);
  Values grad(logits.size(), 0.0);
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] < 0) continue;
    for (size_t c = 0; c < columns; ++c) {
      const double hit = c == static_cast<size_t>(targets[r]) ? 1 : 0;
      grad[r * width + c] = (std::exp(logits[r * width + c] - lse[r]) - hit) * scale;
    }
  }
  return grad;
}

}  // namespace stretto::reference
