// A checksum over the bits of elements, equal on CPUs and GPUs. Its terms are added, so it may be
// computed in parts and in any order. It always changes with a single changed element, and almost
// certainly with several.
#pragma once

#include <cstdint>

namespace stretto {

// The term of an element of up to 32 bits. The factor is odd, so different bits give different
// terms. It is not a linear function of the index, so changes of several neighbours do not cancel.
constexpr uint64_t checksum_term(uint32_t bits, uint64_t index) {
  uint64_t factor = (index + 1) * 0x9e3779b97f4a7c15u;
  factor ^= factor >> 32;
  return bits * (factor | 1);
}

}  // namespace stretto
