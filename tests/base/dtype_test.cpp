#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace stretto {
namespace {

// Every bit pattern decodes and encodes back to itself (NaN to some NaN).
template <typename T, typename Encode>
void round_trip(int patterns, Encode encode) {
  for (int bits = 0; bits < patterns; ++bits) {
    const T value{static_cast<decltype(T::bits)>(bits)};
    const float x = to_float(value);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(to_float(encode(x))));
    } else if (std::isfinite(x)) {
      EXPECT_EQ(encode(x).bits, bits) << x;
    }
  }
}

TEST(DType, EveryPatternRoundTrips) {
  round_trip<bf16_t>(1 << 16, to_bf16);
  round_trip<f16_t>(1 << 16, to_f16);
  round_trip<f8e4m3_t>(1 << 8, to_f8e4m3);
  round_trip<f8e5m2_t>(1 << 8, to_f8e5m2);
}

TEST(DType, RoundsToNearestEven) {
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x1p-8f)), 1.0f);            // tie, to even
  EXPECT_EQ(to_float(to_bf16(1.0f + 0x3p-8f)), 1.0f + 0x1p-6f);  // tie, to even
  EXPECT_EQ(to_float(to_f16(1.0f + 0x1p-11f)), 1.0f);
  EXPECT_EQ(to_float(to_f16(1.0f + 0x1.8p-11f)), 1.0f + 0x1p-10f);
  EXPECT_EQ(to_float(to_f16(0x1p-25f)), 0.0f);  // half the least subnormal
  EXPECT_EQ(to_float(to_f16(0x1.8p-25f)), 0x1p-24f);
}

// The step from one to the next number; half of it rounds to even, which is one.
template <typename T, typename Encode>
void expect_epsilon(DType type, Encode encode) {
  const auto epsilon = static_cast<float>(dtype_epsilon(type));
  EXPECT_EQ(to_float(encode(1 + epsilon)), 1 + epsilon) << dtype_name(type);
  EXPECT_EQ(to_float(encode(1 + epsilon / 2)), 1) << dtype_name(type);
  EXPECT_EQ(dtype_size(type), sizeof(T)) << dtype_name(type);
}

TEST(DType, EpsilonIsTheStepAboveOne) {
  expect_epsilon<bf16_t>(DType::bf16, to_bf16);
  expect_epsilon<f16_t>(DType::f16, to_f16);
  expect_epsilon<f8e4m3_t>(DType::f8e4m3, to_f8e4m3);
  expect_epsilon<f8e5m2_t>(DType::f8e5m2, to_f8e5m2);
  EXPECT_EQ(dtype_epsilon(DType::f32), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(dtype_epsilon(DType::f64), std::numeric_limits<double>::epsilon());
}

TEST(DType, NamesAreReadBack) {
  const std::pair<DType, size_t> types[] = {{DType::f32, 4}, {DType::f64, 8},    {DType::bf16, 2},
                                            {DType::f16, 2}, {DType::f8e4m3, 1}, {DType::f8e5m2, 1},
                                            {DType::i32, 4}, {DType::u16, 2},    {DType::u8, 1}};
  for (const auto& [type, size] : types) {
    EXPECT_EQ(dtype_size(type), size) << dtype_name(type);
    EXPECT_EQ(dtype_from_name(dtype_name(type)), type);
  }
}

TEST(DType, Overflow) {
  EXPECT_TRUE(std::isinf(to_float(to_f16(65520.0f))));
  EXPECT_EQ(to_float(to_f16(65519.0f)), 65504.0f);
  EXPECT_EQ(to_float(to_f8e4m3(1e6f)), 448.0f);
  EXPECT_EQ(to_float(to_f8e5m2(-1e6f)), -57344.0f);
}

}  // namespace
}  // namespace stretto
