// An f32 in two halves: `high` is what rounding it to bf16 gives, `low` its lower 16 bits. So the
// master of bf16 weights takes two bytes beside them instead of four.
//
// Half-way between two bf16 these halves do not tell which way it was rounded: off_tie() moves such
// a value by one unit in the last place, to the side that rounding takes.
#pragma once

#include <bit>

#include "base/dtype.h"

namespace stretto {

struct SplitF32 {
  bf16_t high;
  uint16_t low;
};

// The bits of f32 values, on GPUs too. Half-way, an even upper half stays and an odd one goes up.
constexpr uint32_t bits_off_tie(uint32_t bits) {
  return (bits & 0xffffu) == 0x8000u ? bits + ((bits >> 15) & 2u) - 1u : bits;
}
// A lower half of 0x8000 or more was rounded up.
constexpr uint32_t joined_bits(uint16_t high, uint16_t low) {
  return (uint32_t{high} << 16) + low - (low >= 0x8000u ? 0x10000u : 0u);
}

inline float off_tie(float x) {
  return std::bit_cast<float>(bits_off_tie(std::bit_cast<uint32_t>(x)));
}
inline SplitF32 split(float x) {
  x = off_tie(x);
  return {to_bf16(x), static_cast<uint16_t>(std::bit_cast<uint32_t>(x))};
}
inline float join(SplitF32 x) { return std::bit_cast<float>(joined_bits(x.high.bits, x.low)); }

}  // namespace stretto
