// An f32 as two halves: `high` is its rounding to bf16, `low` its lower 16 bits. With it the master
// of bf16 weights takes two more bytes per weight, not four.
//
// Of a value exactly half-way between two bf16 the halves do not tell in which direction it was
// rounded. off_tie() moves such a value by one unit in the last place, in that direction.
#pragma once

#include <bit>

#include "base/dtype.h"

namespace stretto {

struct SplitF32 {
  bf16_t high;
  uint16_t low;
};

// Works on the bits of an f32, also on GPUs. Half-way, an even upper half rounds down and an odd
// one up.
constexpr uint32_t bits_off_tie(uint32_t bits) {
  return (bits & 0xffffu) == 0x8000u ? bits + ((bits >> 15) & 2u) - 1u : bits;
}
// A lower half of 0x8000 or more means that the upper one was rounded up.
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
