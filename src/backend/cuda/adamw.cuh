// The arithmetic of AdamW: the update of an element, and the random bits that round it.
#pragma once

#include <cstring>

#include "backend/cuda/device.cuh"
#include "backend/cuda/stochastic.cuh"
#include "base/split_f32.h"

namespace stretto::cuda {

constexpr int kSpans = 8;  // multiples of 2^32 of the index that one call may touch
// Elements of a pack: 16 bytes of f32, 8 of bf16. Neighbouring lanes of every operand touch
// neighbouring bytes; more of bf16 would not fit the registers that its random bits need.
constexpr int kPack = 4;

struct AdamWConstants {
  float decay, rest1, beta2, rest2, step_size, root_correction, eps;
  uint64_t first_span;       // index >> 32 of the first element
  Keys keys[3][kSpans + 1];  // of weight, m, v; for each multiple of 2^32 of the index
};

// The random bits of a block's elements. The keys change once in 2^32 elements, so they are looked
// up once where that is not here.
struct Draws {
  const AdamWConstants& c;
  Keys keys[3];
  bool one_span;

  __device__ __forceinline__ Draws(const AdamWConstants& constants, uint64_t first, uint64_t last)
      : c(constants) {
    const uint64_t span = first >> 32;
    one_span = span == last >> 32;
    for (int what = 0; what < 3; ++what) keys[what] = c.keys[what][span - c.first_span];
  }

  __device__ __forceinline__ Pack<bf16, kPack> round_any(const float (&x)[kPack], uint64_t index,
                                                         int what) const {
    Pack<bf16, kPack> pack;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const uint64_t at = index + i;
      const Keys own = c.keys[what][(at >> 32) - c.first_span];
      pack.value[i] = round_stochastic(x[i], random_bits(static_cast<uint32_t>(at), own));
    }
    return pack;
  }

  __device__ __forceinline__ Pack<bf16, kPack> operator()(const float (&x)[kPack], uint64_t index,
                                                          int what) const {
    const bool nan = isnan((x[0] + x[1]) + (x[2] + x[3]));  // or infinities that cancel out
    if (!one_span || nan || index % kPack != 0) return round_any(x, index, what);
    static_assert(kPack == 4);
    const FourDraws four = four_draws(static_cast<uint32_t>(index), keys[what]);
    const uint2 words = round_four(x[0], x[1], x[2], x[3], four);
    Pack<bf16, kPack> pack;
    memcpy(&pack, &words, sizeof(pack));
    return pack;
  }
};

// To about one unit in the last place, in a tenth of the instructions. What is too small for a
// normal number counts as zero: eps is far above it.
__device__ __forceinline__ float fast_root(float x) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}
__device__ __forceinline__ float fast_quotient(float x, float y) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
  return x * inverse;
}

// join() and off_tie() of base/split_f32.h.
__device__ __forceinline__ float join(bf16 high, uint16_t low) {
  return __uint_as_float(joined_bits(__bfloat16_as_ushort(high), low));
}
__device__ __forceinline__ float off_tie(float x) {
  return __uint_as_float(bits_off_tie(__float_as_uint(x)));
}

// One element. Every product and sum is spelled out, so that all callers round alike.
struct Moved {
  float w, m, v;
};
__device__ __forceinline__ Moved update(float w, float m, float v, float g, float clip, float decay,
                                        const AdamWConstants& c) {
  const float gradient = __fmul_rn(g, clip);
  m = fmaf(c.rest1, __fsub_rn(gradient, m), m);
  v = fmaf(__fmul_rn(c.rest2, gradient), gradient, __fmul_rn(c.beta2, v));
  const float divisor = fmaf(fast_root(v), c.root_correction, c.eps);
  return {fmaf(-c.step_size, fast_quotient(m, divisor), __fmul_rn(w, decay)), m, v};
}

}  // namespace stretto::cuda
