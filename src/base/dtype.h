// Element types, and the conversions between float and the narrow formats (round to nearest even).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stretto {

enum class DType : uint8_t { f32, f64, bf16, f16, f8e4m3, f8e5m2, i32, u16, u8 };

size_t dtype_size(DType type);
const char* dtype_name(DType type);
DType dtype_from_name(std::string_view name);  // throws Error for an unknown name

// Storage types: bits only. Arithmetic happens in float.
struct bf16_t {
  uint16_t bits;
};
struct f16_t {
  uint16_t bits;
};
struct f8e4m3_t {
  uint8_t bits;
};
struct f8e5m2_t {
  uint8_t bits;
};

inline float to_float(float x) { return x; }
inline float to_float(bf16_t x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
float to_float(f16_t x);
float to_float(f8e4m3_t x);
float to_float(f8e5m2_t x);

inline bf16_t to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
f16_t to_f16(float x);        // overflows to infinity
f8e4m3_t to_f8e4m3(float x);  // saturates at 448 (no infinity in the format)
f8e5m2_t to_f8e5m2(float x);  // saturates at 57344

// Unit round-off of each float type: |fl(x) - x| <= epsilon * |x| / 2 for normal x.
double dtype_epsilon(DType type);

}  // namespace stretto
