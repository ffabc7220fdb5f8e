// add and gelu_forward: no element depends on another, so the shape is just a count.
#include <cmath>

#include "reference/gelu.h"
#include "support/ops.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

constexpr int64_t kCounts[] = {1, 3, 15, 16, 17, 127, 1009, 40000};

TEST(Add, IsTheRoundedSum) {
  for (const DType type : kComputeTypes) {
    for (const int64_t n : kCounts) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_name(type), n));
      const Operand a = Operand::random(type, {n}, 1), b = Operand::random(type, {n}, 2);
      const Operand out = Operand::output(type, {n});
      cpu().add(out, a, b);
      Values expected = a.values();
      const Values other = b.values();
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += other[i];
      EXPECT_TRUE(out.same_bits(Operand(type, {n}, expected)));
      EXPECT_TRUE(out.guards_intact());
    }
  }
}

TEST(Add, InPlace) {
  const Operand a = Operand::random(DType::bf16, {333}, 1),
                b = Operand::random(DType::bf16, {333}, 2);
  const Operand out = Operand::output(DType::bf16, {333}), same = a;
  cpu().add(out, a, b);
  cpu().add(same, same, b);
  EXPECT_TRUE(out.same_bits(same));
}

TEST(Gelu, AgreesWithDouble) {
  for (const DType type : kComputeTypes) {
    for (const int64_t n : kCounts) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_name(type), n));
      const Operand pre = Operand::random(type, {n}, 1, 3.0);
      const Operand out = Operand::output(type, {n});
      cpu().gelu_forward(out, pre);
      Values expected = pre.values();
      for (double& x : expected) x = reference::gelu(x);
      // Relative to x, not to a far tail (one element may be all there is): the test below bounds
      // it.
      EXPECT_TRUE(close(out, expected, type, 4, max_abs(pre.values())));
    }
  }
}

// Relative, point by point, over the whole range where the result is a normal float.
TEST(Gelu, RelativeErrorIsSmallAndTheFarEndsAreExact) {
  Values xs;
  for (double x = -12; x < 12; x += 0.00317) xs.push_back(static_cast<float>(x));
  const auto n = static_cast<int64_t>(xs.size());
  const Operand pre(DType::f32, {n}, xs), out = Operand::output(DType::f32, {n});
  cpu().gelu_forward(out, pre);
  const Values got = out.values();
  for (size_t i = 0; i < xs.size(); ++i) {
    const double expected = reference::gelu(xs[i]);
    // tanh in double cancels below -5; there the tail is x e^(2u) / (1 + e^(2u)).
    const double u = 0.7978845608028654 * (xs[i] + 0.044715 * xs[i] * xs[i] * xs[i]);
    const double exact = xs[i] < -1 ? xs[i] * std::exp(2 * u) / (1 + std::exp(2 * u)) : expected;
    if (std::abs(exact) < 1e-36) continue;
    // The exponent's rounding is multiplied by |2u|: that is the part of epsilon below.
    EXPECT_NEAR(got[i] / exact, 1, (4 + 4 * std::abs(u)) * dtype_epsilon(DType::f32)) << xs[i];
  }
  const Operand far(DType::f32, {5}, {-INFINITY, -1e30, 1e30, INFINITY, NAN});
  const Operand ends = Operand::output(DType::f32, {5});
  cpu().gelu_forward(ends, far);
  EXPECT_EQ(ends.values()[0], 0);
  EXPECT_EQ(ends.values()[1], 0);
  EXPECT_EQ(ends.values()[2], static_cast<float>(1e30));
  EXPECT_EQ(ends.values()[3], INFINITY);
  EXPECT_TRUE(std::isnan(ends.values()[4]));
}

TEST(Gelu, GradIsTheDerivative) {
  for (double x = -6; x <= 6; x += 0.37) {
    const double h = 1e-5;
    const double slope = (reference::gelu(x + h) - reference::gelu(x - h)) / (2 * h);
    EXPECT_NEAR(reference::gelu_grad(x), slope, 1e-9) << x;
  }
}

// The vector code, point by point: a product with weights of one leaves gelu'(pre) alone.
TEST(Gelu, VectorGradAgreesPointByPoint) {
  Values xs;
  for (double x = -12; x < 12; x += 0.00317) xs.push_back(static_cast<float>(x));
  const auto n = static_cast<int64_t>(xs.size());
  const Operand pre(DType::f32, {1, n}, xs), out = Operand::output(DType::f32, {1, n});
  const Operand dout(DType::f32, {1, 1}, {1});
  const Operand weight(DType::f32, {1, n}, Values(xs.size(), 1));
  LinearInputGradOptions options;
  options.pre = pre;
  cpu().linear_backward_input(out, dout, weight, options);
  const Values got = out.values();
  for (size_t i = 0; i < xs.size(); ++i) {
    const double x = xs[i], scale = 0.7978845608028654, cubic = 0.044715;
    const double e = std::exp(2 * scale * (x + cubic * x * x * x)), s = e / (1 + e);
    const double slope = 2 * scale * (1 + 3 * cubic * x * x), bend = x * slope * s / (1 + e);
    if (s < 1e-36) continue;  // exp flushes there, as in the test above
    const double u = std::abs(std::log(e)) / 2;
    // Above 0 the code forms 1 - s from a rounded s; the rest is relative, u as in the test above.
    const double rounding = (4 + 4 * u) * (s + std::abs(bend)) + (x > 0 ? x * slope : 0);
    EXPECT_NEAR(got[i], s + bend, rounding * dtype_epsilon(DType::f32)) << x;
  }
  const Operand far(DType::f32, {1, 5}, {-INFINITY, -1e30, 1e30, INFINITY, NAN});
  const Operand ends = Operand::output(DType::f32, {1, 5});
  const Operand ones(DType::f32, {1, 5}, Values(5, 1));
  options.pre = far;
  cpu().linear_backward_input(ends, dout, ones, options);
  EXPECT_EQ(ends.values()[0], 0);
  EXPECT_EQ(ends.values()[1], 0);
  EXPECT_EQ(ends.values()[2], 1);
  EXPECT_EQ(ends.values()[3], 1);
  EXPECT_TRUE(std::isnan(ends.values()[4]));
}

TEST(Elementwise, ThreadsDoNotMatter) {
  for (const DType type : kComputeTypes) {
    const Operand a = Operand::random(type, {70001}, 1), b = Operand::random(type, {70001}, 2);
    expect_same_for_all_threads([&](Backend& backend) {
      const Operand sum = Operand::output(type, a.shape()), act = sum;
      backend.add(sum, a, b);
      backend.gelu_forward(act, a);
      return std::vector<Operand>{sum, act};
    });
  }
}

}  // namespace
}  // namespace stretto::test
