// Rounding through 8-bit floats.
#include "backend/cpu/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/ops.h"

namespace stretto::test {
namespace {

float round_through(DType fp8, float x) {
  return fp8 == DType::f8e4m3 ? to_float(to_f8e4m3(x)) : to_float(to_f8e5m2(x));
}

TEST(Fp8, RoundsAsTheScalarConversion) {
  for (DType fp8 : {DType::f8e4m3, DType::f8e5m2}) {
    for (DType type : {DType::f32, DType::bf16, DType::f16}) {
      for (int64_t count : {1, 17, 40000}) {
        const Operand inp = Operand::random(type, {count}, 1, 3);
        const Operand out = Operand::output(type, {count});
        const float scale = 16;  // a power of two: scaling is exact
        fake_quantize_fp8(out, inp, fp8, scale, 2);
        Values expected = inp.values();
        for (double& x : expected) x = round_through(fp8, static_cast<float>(x) * scale) / scale;
        EXPECT_TRUE(close(out, expected, DType::f32, 0, 1)) << dtype_name(fp8) << dtype_name(type);
      }
    }
  }
}

TEST(Fp8, ScaleMapsTheLargestMagnitudeToTheLargestNumber) {
  const Operand x(DType::f32, {4}, {0.5, -7, 3, std::numeric_limits<double>::infinity()});
  EXPECT_FLOAT_EQ(fp8_scale(x, DType::f8e4m3, 1), 64);
  EXPECT_FLOAT_EQ(fp8_scale(x, DType::f8e5m2, 2), 8192);
  EXPECT_EQ(fp8_scale(Operand::zeros(DType::bf16, {3}), DType::f8e4m3, 1), 1);
}

TEST(Fp8, InPlaceAndSaturating) {
  const Operand x(DType::f32, {3}, {1000, -1000, 1});
  fake_quantize_fp8(x, x, DType::f8e4m3, 1, 1);
  EXPECT_TRUE(close(x, {448, -448, 1}, DType::f32, 0, 1));
}

}  // namespace
}  // namespace stretto::test
