#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(DType, Overflow) {
  EXPECT_TRUE(std::isinf(to_float(to_f16(65520.0f))));
  EXPECT_EQ(to_float(to_f16(65519.0f)), 65504.0f);
  EXPECT_EQ(to_float(to_f8e4m3(1e6f)), 448.0f);
  EXPECT_EQ(to_float(to_f8e5m2(-1e6f)), -57344.0f);
}

}  // namespace
}  // namespace stretto
