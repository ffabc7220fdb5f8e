#include "base/dtype.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stretto {
namespace {

struct Row {
  DType type;
  const char* name;
  size_t size;
  double epsilon;
};

constexpr Row kRows[] = {
    {DType::f32, "f32", 4, 0x1p-23},
    {DType::f64, "f64", 8, 0x1p-52},
    {DType::bf16, "bf16", 2, 0x1p-7},
    {DType::f16, "f16", 2, 0x1p-10},
    {DType::f8e4m3, "f8e4m3", 1, 0x1p-3},
    {DType::f8e5m2, "f8e5m2", 1, 0x1p-2},
    {DType::i32, "i32", 4, 0},
    {DType::u16, "u16", 2, 0},
    {DType::u8, "u8", 1, 0},
};

const Row& row(DType type) { return kRows[static_cast<size_t>(type)]; }

// The float nearest to x with `mantissa` explicit bits and smallest normal exponent `min_exponent`;
// ties to even, subnormals included. The caller checks the range.
float round_to(float x, int mantissa, int min_exponent) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| = f * 2^exponent, f in [0.5, 1)
  const int scale = mantissa - std::max(exponent - 1, min_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(x, scale)), -scale);
}

// Encodes an already rounded finite value below the format's overflow threshold.
uint32_t encode(float x, int mantissa, int bias) {
  const uint32_t magnitude_shift = static_cast<uint32_t>(mantissa);
  const float a = std::fabs(x);
  if (a == 0) return 0;
  int exponent = 0;
  std::frexp(a, &exponent);
  exponent -= 1;
  if (exponent < 1 - bias) {  // subnormal
    return static_cast<uint32_t>(std::ldexp(a, mantissa - (1 - bias)));
  }
  const auto fraction = static_cast<uint32_t>(std::ldexp(a, mantissa - exponent));
  return (static_cast<uint32_t>(exponent + bias - 1) << magnitude_shift) + fraction;
}

float decode(uint32_t magnitude, int mantissa, int bias) {
  const uint32_t exponent = magnitude >> mantissa;
  const uint32_t fraction = magnitude & ((1u << mantissa) - 1);
  if (exponent == 0) return std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa);
  return std::ldexp(static_cast<float>(fraction | (1u << mantissa)),
                    static_cast<int>(exponent) - bias - mantissa);
}

struct Format {
  int bits, mantissa, bias;
  float largest;
  uint32_t beyond;    // code of magnitudes beyond `largest`: infinity, or the largest itself
  uint32_t infinity;  // 0: the format has none
  uint32_t nan;
};
constexpr Format kF16{16, 10, 15, 65504, 0x7c00, 0x7c00, 0x7e00};
constexpr Format kF8e4m3{8, 3, 7, 448, 0x7e, 0, 0x7f};
constexpr Format kF8e5m2{8, 2, 15, 57344, 0x7b, 0x7c, 0x7e};

float unpack(uint32_t bits, const Format& f) {
  const uint32_t sign_bit = 1u << (f.bits - 1), magnitude = bits & (sign_bit - 1);
  if (magnitude > std::max(f.infinity, f.beyond)) return std::nanf("");
  const float sign = (bits & sign_bit) != 0 ? -1.0f : 1.0f;
  if (f.infinity != 0 && magnitude == f.infinity) return sign * INFINITY;
  return sign * decode(magnitude, f.mantissa, f.bias);
}

uint32_t pack(float x, const Format& f) {
  const uint32_t sign = std::signbit(x) ? 1u << (f.bits - 1) : 0;
  if (std::isnan(x)) return sign | f.nan;
  const float r = round_to(x, f.mantissa, 1 - f.bias);
  return sign | (std::fabs(r) > f.largest ? f.beyond : encode(r, f.mantissa, f.bias));
}

}  // namespace

size_t dtype_size(DType type) { return row(type).size; }
const char* dtype_name(DType type) { return row(type).name; }
double dtype_epsilon(DType type) { return row(type).epsilon; }

DType dtype_from_name(std::string_view name) {
  for (const Row& r : kRows) {
    if (name == r.name) return r.type;
  }
  throw Error(ExitCode::bad_config, fmt::format("unknown element type '{}'", name),
              "known types: f32, f64, bf16, f16, f8e4m3, f8e5m2, i32, u16, u8");
}

float to_float(f16_t x) { return unpack(x.bits, kF16); }
float to_float(f8e4m3_t x) { return unpack(x.bits, kF8e4m3); }
float to_float(f8e5m2_t x) { return unpack(x.bits, kF8e5m2); }

f16_t to_f16(float x) { return {static_cast<uint16_t>(pack(x, kF16))}; }
f8e4m3_t to_f8e4m3(float x) { return {static_cast<uint8_t>(pack(x, kF8e4m3))}; }
f8e5m2_t to_f8e5m2(float x) { return {static_cast<uint8_t>(pack(x, kF8e5m2))}; }

}  // namespace stretto
