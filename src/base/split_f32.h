// An f32 in two halves: `high` is what rounding it to bf16 gives, `low` its lower 16 bits. So a
// master copy of bf16 weights takes two bytes beside them instead of four.
//
// Half-way between two bf16 these halves do not tell which way it was rounded: off_tie() moves such
// a value by one unit in the last place.
#pragma once

#include <bit>

#include "base/dtype.h"

namespace stretto {

struct SplitF32 {
  bf16_t high;
  uint16_t low;
};
inline float off_tie(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>(bits | ((bits & 0xffffu) == 0x8000u ? 1u : 0u));
}
inline SplitF32 split(float x) {
  x = off_tie(x);
  return {to_bf16(x), static_cast<uint16_t>(std::bit_cast<uint32_t>(x))};
}
// A low half of 0x8000 or more was rounded up.
inline float join(SplitF32 x) {
  const uint32_t borrow = x.low >> 15;
  return std::bit_cast<float>((uint32_t{x.high.bits} << 16) + x.low - (borrow << 16));
}

}  // namespace stretto
