// What no version that takes its products and its attention from NVIDIA's libraries can beat: all
// of a step's products, without bias, GELU or sums, and its attention, back to back for seconds, so
// that the card is as hot and as held back by its power cap as in training; and the bytes of the
// rest.
#pragma once

#include <string>
#include <vector>

namespace stretto::bench {

// Prints a line per point ("125m-1024"; none given: all). Exit code.
int gpu_floor(const std::vector<std::string>& points);

}  // namespace stretto::bench
