// Random bits for stochastic rounding to bf16: a function of (keys, low half of the global index),
// the same as in the cpu backend.
#pragma once

#include "backend/cuda/device.cuh"

namespace stretto::cuda {

struct Keys {
  uint32_t first, second;
};

__device__ __forceinline__ uint32_t mix(uint32_t x, uint32_t multiplier) {
  x = (x ^ (x >> 16)) * multiplier;
  return x ^ (x >> 15);
}

// Four neighbours share a hash and that hashed again: each has a half of one of the two.
struct FourDraws {
  uint32_t first, second;
};

__device__ __forceinline__ FourDraws four_draws(uint32_t low, Keys keys) {
  const uint32_t r = mix((low >> 2) ^ keys.first, 0x7feb352du);
  const uint32_t first = mix(r ^ keys.second, 0x846ca68bu);
  return {first, mix(first, 0x7feb352du)};
}

__device__ __forceinline__ uint32_t random_bits(uint32_t low, Keys keys) {
  const FourDraws four = four_draws(low, keys);
  const uint32_t pair = (low & 2) == 0 ? four.first : four.second;
  return (low & 1) == 0 ? pair >> 16 : pair & 0xffff;
}

// Up with the probability of the part cut off.
__device__ __forceinline__ bf16 round_stochastic(float x, uint32_t bits16) {
  const uint32_t bits = __float_as_uint(x);
  const uint32_t rounded = isnan(x) ? (bits >> 16) | 0x40u : (bits + bits16) >> 16;
  return __ushort_as_bfloat16(static_cast<unsigned short>(rounded));
}

// NaN stays NaN when random bits are added.
__device__ __forceinline__ float without_low_bits_if_nan(float x) {
  return isnan(x) ? __uint_as_float(0x7fff0000u) : x;
}

// Four neighbours, none of them NaN, whose first index is a multiple of four: their upper halves,
// in pairs.
__device__ __forceinline__ uint2 round_four(float a, float b, float c, float d, FourDraws four) {
  const uint32_t sum[4] = {
      __float_as_uint(a) + (four.first >> 16), __float_as_uint(b) + (four.first & 0xffff),
      __float_as_uint(c) + (four.second >> 16), __float_as_uint(d) + (four.second & 0xffff)};
  return {__byte_perm(sum[0], sum[1], 0x7632), __byte_perm(sum[2], sum[3], 0x7632)};
}

}  // namespace stretto::cuda
