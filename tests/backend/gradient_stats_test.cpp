#include <cmath>

#include "support/ops.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

Values control_of(const Values& stats, float clip, float grad_scale) {
  const Operand control = Operand::output(DType::f32, {2});
  cpu().clip_control(control, Operand(DType::f64, {3}, stats), clip, grad_scale);
  return control.values();
}

TEST(GradientStats, AgreeWithDoubleAndAccumulate) {
  for (const DType type : kComputeTypes) {
    for (const int64_t n : {1, 2, 15, 17, 1009, 40000}) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_name(type), n));
      Operand grad = Operand::random(type, {n}, 1, 1e-3);
      Values values = grad.values();
      for (size_t i = 0; i < values.size(); i += 7) values[i] = i % 2 == 0 ? 0.0 : -0.0;
      grad.set(values);
      long double squares = 2;  // wider: 40000 additions in double err more than the operator
      double zeros = 3;
      for (const double x : grad.values()) {
        squares += static_cast<long double>(x) * x;
        zeros += x == 0 ? 1 : 0;
      }
      const Operand stats(DType::f64, {3}, {2.0, 3.0, 4.0});
      cpu().gradient_stats(stats, grad);
      EXPECT_TRUE(stats.guards_intact());
      const auto expected = static_cast<double>(squares);
      EXPECT_NEAR(stats.values()[0], expected, 64 * dtype_epsilon(DType::f64) * expected);
      EXPECT_EQ(stats.values()[1], zeros);
      EXPECT_EQ(stats.values()[2], 4);
    }
  }
}

TEST(GradientStats, RowsAreThoseOfTheParts) {
  const Operand grad = Operand::random(DType::f32, {3 * 1000}, 5);
  const Operand rows = Operand::zeros(DType::f64, {3, 3});
  cpu().gradient_stats(rows, grad);
  for (int64_t part = 0; part < 3; ++part) {
    const Operand one = Operand::zeros(DType::f64, {3});
    const Values all = grad.values();
    const Operand piece(DType::f32, {1000},
                        Values(all.begin() + part * 1000, all.begin() + (part + 1) * 1000));
    cpu().gradient_stats(one, piece);
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(rows.values()[static_cast<size_t>(part) * 3 + k], one.values()[k]);
    }
  }
}

TEST(GradientStats, SquaresNeitherOverflowNorVanish) {
  const Operand grad(DType::f32, {2}, {1e-30, 1e30});
  const Operand stats = Operand::zeros(DType::f64, {3});
  cpu().gradient_stats(stats, grad);
  EXPECT_NEAR(stats.values()[0] / 1e60, 1, 1e-6);
  const Operand small(DType::f32, {1}, {1e-30}), small_stats = Operand::zeros(DType::f64, {3});
  cpu().gradient_stats(small_stats, small);
  EXPECT_NEAR(small_stats.values()[0] / 1e-60, 1, 1e-6);
}

TEST(GradientStats, CountsNonFiniteWhereverTheyAre) {
  for (const DType type : kComputeTypes) {
    for (const int64_t n : {1, 16, 33, 20000}) {
      for (const double bad : {NAN, INFINITY, -INFINITY}) {
        Operand grad = Operand::random(type, {n}, 1);
        Values values = grad.values();
        values.back() = bad;
        values.front() = bad;
        grad.set(values);
        const Operand stats = Operand::zeros(DType::f64, {3});
        cpu().gradient_stats(stats, grad);
        EXPECT_EQ(stats.values()[2], n == 1 ? 1 : 2) << dtype_name(type) << " " << n;
        EXPECT_EQ(control_of(stats.values(), 1, 1)[1], 1);
      }
    }
  }
}

TEST(GradientStats, ThreadsDoNotMatter) {
  const Operand grad = Operand::random(DType::f32, {200003}, 1);
  expect_same_for_all_threads([&](Backend& backend) {
    const Operand stats = Operand::zeros(DType::f64, {3});
    backend.gradient_stats(stats, grad);
    return std::vector<Operand>{stats};
  });
}

TEST(ClipControl, ClipsTheScaledNorm) {
  EXPECT_EQ(control_of({16, 0, 0}, 0, 1), (Values{1, 0}));       // no clipping asked for
  EXPECT_EQ(control_of({16, 0, 0}, 8, 1), (Values{1, 0}));       // below the limit
  EXPECT_EQ(control_of({16, 0, 0}, 4, 1), (Values{1, 0}));       // at the limit
  EXPECT_EQ(control_of({16, 0, 0}, 1, 1), (Values{0.25, 0}));    // norm 4
  EXPECT_EQ(control_of({16, 0, 0}, 1, 0.5), (Values{0.25, 0}));  // norm 2: 0.5 * 1/2
  EXPECT_EQ(control_of({0, 5, 0}, 1, 0.5), (Values{0.5, 0}));    // no gradient at all
}

TEST(ClipControl, NonFiniteMeansSkip) {
  EXPECT_EQ(control_of({16, 0, 1}, 1, 1)[1], 1);
  EXPECT_EQ(control_of({NAN, 0, 0}, 1, 1)[1], 1);
  EXPECT_EQ(control_of({INFINITY, 0, 0}, 0, 1)[1], 1);
  EXPECT_EQ(control_of({1, 0, 0}, 0, INFINITY)[1], 1);
}

}  // namespace
}  // namespace stretto::test
