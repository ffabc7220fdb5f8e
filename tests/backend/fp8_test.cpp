// Rounding through 8-bit floats.
#include "backend/cpu/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/backend.h"
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

// The smallest numbers have no factor that takes them to the largest: none is infinite.
TEST(Fp8, NumbersCloseToZeroStayNumbers) {
  for (const DType fp8 : {DType::f8e4m3, DType::f8e5m2}) {
    const Operand x(DType::f32, {3}, {0x1p-140, 0, -0x1p-148});
    const float scale = fp8_scale(x, fp8, 1);
    EXPECT_TRUE(std::isfinite(scale));
    fake_quantize_fp8(x, x, fp8, scale, 1);
    for (const double value : x.values()) EXPECT_LE(std::abs(value), 0x1p-140) << dtype_name(fp8);
  }
}

Operand rounded(const Operand& x, DType fp8) {
  const Operand copy = x;
  fake_quantize_fp8(copy, x, fp8, fp8_scale(x, fp8, 1), 1);
  return copy;
}

// Activations and weights need the precision of e4m3, gradients the range of e5m2.
TEST(Fp8, OperandsOfALinearLayerHaveTheirFormats) {
  const int64_t m = 24, n = 40, k = 32;
  const Operand inp = Operand::random(DType::bf16, {m, k}, 1);
  const Operand weight = Operand::random(DType::bf16, {n, k}, 2);
  const Operand dout = Operand::random(DType::bf16, {m, n}, 3);
  const Operand small_inp = rounded(inp, DType::f8e4m3),
                small_weight = rounded(weight, DType::f8e4m3),
                small_dout = rounded(dout, DType::f8e5m2);
  const auto small = make_cpu_backend(1), plain = make_cpu_backend(1);
  small->eight_bit_products(true);
  const auto out = [&] { return Operand::output(DType::bf16, {m, n}); };
  const Operand y = out(), y_expected = out();
  small->linear_forward(y, inp, weight, {});
  plain->linear_forward(y_expected, small_inp, small_weight, {});
  EXPECT_TRUE(y.same_bits(y_expected));
  const Operand dinp = Operand::output(DType::bf16, {m, k}), dinp_expected = dinp;
  small->linear_backward_input(dinp, dout, weight);
  plain->linear_backward_input(dinp_expected, small_dout, small_weight);
  EXPECT_TRUE(dinp.same_bits(dinp_expected));
  const Operand dweight = Operand::output(DType::f32, {n, k}), dweight_expected = dweight;
  small->linear_backward_weight(dweight, {}, inp, dout, Grad::overwrite);
  plain->linear_backward_weight(dweight_expected, {}, small_inp, small_dout, Grad::overwrite);
  EXPECT_TRUE(dweight.same_bits(dweight_expected));
}

TEST(Fp8, InPlaceAndSaturating) {
  const Operand x(DType::f32, {3}, {1000, -1000, 1});
  fake_quantize_fp8(x, x, DType::f8e4m3, 1, 1);
  EXPECT_TRUE(close(x, {448, -448, 1}, DType::f32, 0, 1));
}

}  // namespace
}  // namespace stretto::test
