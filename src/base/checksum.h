// A checksum of elements by their bits, the same on CPUs and GPUs: terms are added, so it may be
// taken in parts and in any order. One changed element always changes it, and so do almost surely
// several.
#pragma once

#include <cstdint>

namespace stretto {

// Of an element of up to 32 bits. The factor is odd, so different bits give different terms; it is
// no linear function of the index, so neighbours that change together do not cancel.
constexpr uint64_t checksum_term(uint32_t bits, uint64_t index) {
  uint64_t factor = (index + 1) * 0x9e3779b97f4a7c15u;
  factor ^= factor >> 32;
  return bits * (factor | 1);
}

}  // namespace stretto
