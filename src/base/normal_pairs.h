// Box-Muller on many pairs at once.
#pragma once

#include <cstddef>

namespace stretto {

constexpr size_t kNormalPairs = 64;  // in one call
constexpr size_t kNormalStep = 8;    // computed at a time: a multiple of the length of every vector

// even, odd = sqrt(-2 log u) times cosine and sine of the angle, for `count` pairs, rounded up to a
// whole step: u in (0, 1], angles in [0, 2 pi). The result for a pair does not depend on its place.
void normal_pairs(double* even, double* odd, const double* u, const double* angle, size_t count);

}  // namespace stretto
