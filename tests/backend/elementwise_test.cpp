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
  for (const Gelu form : kGelus) {
    for (const DType type : kComputeTypes) {
      for (const int64_t n : kCounts) {
        SCOPED_TRACE(fmt::format("{} {}", dtype_name(type), n));
        const Operand pre = Operand::random(type, {n}, 1, 3.0);
        const Operand out = Operand::output(type, {n});
        cpu().gelu_forward(out, pre, form);
        Values expected = pre.values();
        for (double& x : expected) x = reference::gelu(x, form);
        // Relative to x, not to a far tail (one element may be all there is): the test below bounds
        // it.
        EXPECT_TRUE(close(out, expected, type, 4, max_abs(pre.values())));
      }
    }
  }
}

// The exponent -2u of the gate, whose rounding the result multiplies; the exact form takes its own
// in two parts and has none.
double exponent(double x, Gelu form) {
  return form == Gelu::exact ? 1 : 2 * 0.7978845608028654 * std::abs(x + 0.044715 * x * x * x);
}

Values dense_points() {
  Values xs;
  for (double x = -12; x < 12; x += 0.00317) xs.push_back(static_cast<float>(x));
  return xs;
}

const Values kFarEnds = {-INFINITY, -1e30, 1e30, INFINITY, NAN};

// Relative, point by point, over the whole range where the result is a normal float.
TEST(Gelu, RelativeErrorIsSmallAndTheFarEndsAreExact) {
  const Values xs = dense_points();
  const auto n = static_cast<int64_t>(xs.size());
  for (const Gelu form : kGelus) {
    const Operand pre(DType::f32, {n}, xs), out = Operand::output(DType::f32, {n});
    cpu().gelu_forward(out, pre, form);
    const Values got = out.values();
    for (size_t i = 0; i < xs.size(); ++i) {
      const double expected = reference::gelu(xs[i], form);
      if (std::abs(expected) < 1e-36) continue;
      EXPECT_NEAR(got[i] / expected, 1, (4 + 2 * exponent(xs[i], form)) * dtype_epsilon(DType::f32))
          << xs[i];
    }
    const Operand far(DType::f32, {5}, kFarEnds), ends = Operand::output(DType::f32, {5});
    cpu().gelu_forward(ends, far, form);
    EXPECT_EQ(ends.values()[0], 0);
    EXPECT_EQ(ends.values()[1], 0);
    EXPECT_EQ(ends.values()[2], static_cast<float>(1e30));
    EXPECT_EQ(ends.values()[3], INFINITY);
    EXPECT_TRUE(std::isnan(ends.values()[4]));
  }
}

TEST(Gelu, GradIsTheDerivative) {
  for (const Gelu form : kGelus) {
    for (double x = -6; x <= 6; x += 0.37) {
      const double h = 1e-5;
      const double slope = (reference::gelu(x + h, form) - reference::gelu(x - h, form)) / (2 * h);
      EXPECT_NEAR(reference::gelu_grad(x, form), slope, 1e-9) << x;
    }
  }
}

// The vector code, point by point: a product with weights of one leaves gelu'(pre) alone.
TEST(Gelu, VectorGradAgreesPointByPoint) {
  const Values xs = dense_points();
  const auto n = static_cast<int64_t>(xs.size());
  const Operand dout(DType::f32, {1, 1}, {1});
  for (const Gelu form : kGelus) {
    const Operand pre(DType::f32, {1, n}, xs), out = Operand::output(DType::f32, {1, n});
    const Operand weight(DType::f32, {1, n}, Values(xs.size(), 1));
    LinearInputGradOptions options;
    options.gelu = form;
    options.pre = pre;
    cpu().linear_backward_input(out, dout, weight, options);
    const Values got = out.values();
    for (size_t i = 0; i < xs.size(); ++i) {
      const double x = xs[i], gate = reference::gelu_gate(x, form);
      const double expected = reference::gelu_grad(x, form), bend = expected - gate;
      if (gate < 1e-36) continue;  // exp flushes there, as in the test above
      // Above 0 the tanh form takes 1 - gate from a rounded gate; the rest is relative.
      const double slope = 2 * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
      const double cancelled = x > 0 && form == Gelu::tanh ? x * slope : 0;
      const double rounding = (4 + 2 * exponent(x, form)) * (gate + std::abs(bend)) + cancelled;
      EXPECT_NEAR(got[i], expected, rounding * dtype_epsilon(DType::f32)) << x;
    }
    const Operand far(DType::f32, {1, 5}, kFarEnds), ends = Operand::output(DType::f32, {1, 5});
    const Operand ones(DType::f32, {1, 5}, Values(5, 1));
    options.pre = far;
    cpu().linear_backward_input(ends, dout, ones, options);
    EXPECT_EQ(ends.values()[0], 0);
    EXPECT_EQ(ends.values()[1], 0);
    EXPECT_EQ(ends.values()[2], 1);
    EXPECT_EQ(ends.values()[3], 1);
    EXPECT_TRUE(std::isnan(ends.values()[4]));
  }
}

TEST(Elementwise, ThreadsDoNotMatter) {
  for (const DType type : kComputeTypes) {
    const Operand a = Operand::random(type, {70001}, 1), b = Operand::random(type, {70001}, 2);
    expect_same_for_all_threads([&](Backend& backend) {
      const Operand sum = Operand::output(type, a.shape()), act = sum;
      backend.add(sum, a, b);
      backend.gelu_forward(act, a, Gelu::exact);
      return std::vector<Operand>{sum, act};
    });
  }
}

}  // namespace
}  // namespace stretto::test
