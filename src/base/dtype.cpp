#include "base/dtype.h"

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

float to_float(f16_t x) {
  const uint32_t magnitude = x.bits & 0x7fffu;
  const float sign = (x.bits & 0x8000u) ? -1.0f : 1.0f;
  if (magnitude > 0x7c00u) return std::nanf("");
  if (magnitude == 0x7c00u) return sign * INFINITY;
  return sign * decode(magnitude, 10, 15);
}

f16_t to_f16(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000u : 0u;
  if (std::isnan(x)) return {static_cast<uint16_t>(sign | 0x7e00u)};
  const float r = round_to(x, 10, -14);
  if (std::fabs(r) > 65504.0f) return {static_cast<uint16_t>(sign | 0x7c00u)};
  return {static_cast<uint16_t>(sign | encode(r, 10, 15))};
}

float to_float(f8e4m3_t x) {
  const uint32_t magnitude = x.bits & 0x7fu;
  const float sign = (x.bits & 0x80u) ? -1.0f : 1.0f;
  if (magnitude == 0x7fu) return std::nanf("");
  return sign * decode(magnitude, 3, 7);
}

f8e4m3_t to_f8e4m3(float x) {
  const uint8_t sign = std::signbit(x) ? 0x80u : 0u;
  if (std::isnan(x)) return {static_cast<uint8_t>(sign | 0x7fu)};
  const float r = round_to(x, 3, -6);
  if (std::fabs(r) > 448.0f) return {static_cast<uint8_t>(sign | 0x7eu)};
  return {static_cast<uint8_t>(sign | encode(r, 3, 7))};
}

float to_float(f8e5m2_t x) {
  const uint32_t magnitude = x.bits & 0x7fu;
  const float sign = (x.bits & 0x80u) ? -1.0f : 1.0f;
  if (magnitude > 0x7cu) return std::nanf("");
  if (magnitude == 0x7cu) return sign * INFINITY;
  return sign * decode(magnitude, 2, 15);
}

f8e5m2_t to_f8e5m2(float x) {
  const uint8_t sign = std::signbit(x) ? 0x80u : 0u;
  if (std::isnan(x)) return {static_cast<uint8_t>(sign | 0x7eu)};
  const float r = round_to(x, 2, -14);
  if (std::fabs(r) > 57344.0f) return {static_cast<uint8_t>(sign | 0x7bu)};
  return {static_cast<uint8_t>(sign | encode(r, 2, 15))};
}

}  // namespace stretto
