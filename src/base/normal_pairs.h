// Box-Muller on many pairs at once.
#pragma once

#include <cstddef>

namespace stretto {

constexpr size_t kNormalPairs = 64;  // at most at a time
constexpr size_t kNormalStep = 8;  // whole steps are computed: a multiple of every vector's length

// even, odd = sqrt(-2 log u) times cosine and sine of the angle, for `count` pairs and those up to
// the next whole step: u in (0, 1], angles in [0, 2 pi). A pair's values do not depend on its
// place.
void normal_pairs(double* even, double* odd, const double* u, const double* angle, size_t count);

}  // namespace stretto
