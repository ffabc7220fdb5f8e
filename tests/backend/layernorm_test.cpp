#include "reference/layernorm.h"

#include "support/ops.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

struct Size {
  int64_t rows, n;
};
constexpr Size kSizes[] = {{1, 1},  {3, 1},   {1, 2},    {7, 13},
                           {5, 64}, {33, 97}, {1, 1031}, {70, 768}};

struct LayerNormInputs {
  Operand x, weight, bias, dout;

  LayerNormInputs(DType type, Size s)
      : x(Operand::random(type, {s.rows, s.n}, 1, 2.0)),
        weight(Operand::random(type, {s.n}, 2)),
        bias(Operand::random(type, {s.n}, 3)),
        dout(Operand::random(type, {s.rows, s.n}, 4)) {}
};

TEST(LayerNorm, ForwardAgreesWithDouble) {
  for (const DType type : kComputeTypes) {
    for (const Size s : kSizes) {
      for (const bool with_bias : {true, false}) {
        SCOPED_TRACE(fmt::format("{} ({}, {}) bias {}", dtype_name(type), s.rows, s.n, with_bias));
        const LayerNormInputs in(type, s);
        const Operand bias = with_bias ? in.bias : Operand();
        const Operand out = Operand::output(type, {s.rows, s.n});
        const Operand mean = Operand::output(DType::f32, {s.rows});
        const Operand rstd = Operand::output(DType::f32, {s.rows});
        cpu().layernorm_forward(out, mean, rstd, in.x, in.weight, bias);
        const auto expected =
            reference::layernorm_forward(in.x.values(), in.weight.values(), bias.values());
        EXPECT_TRUE(close(out, expected.out, type, 4));
        EXPECT_TRUE(close(mean, expected.mean, DType::f32, 4, 2.0));
        EXPECT_TRUE(close(rstd, expected.rstd, DType::f32, 8));
      }
    }
  }
}

TEST(LayerNorm, LargeMeanDoesNotCancel) {
  const Operand x(DType::f32, {1, 4}, {10000.0, 10001.0, 10002.0, 10003.0});
  const Operand weight(DType::f32, {4}, {1.0, 1.0, 1.0, 1.0});
  const Operand out = Operand::output(DType::f32, {1, 4});
  const Operand mean = Operand::output(DType::f32, {1}), rstd = Operand::output(DType::f32, {1});
  cpu().layernorm_forward(out, mean, rstd, x, weight, {});
  const auto expected = reference::layernorm_forward(x.values(), weight.values(), {});
  EXPECT_TRUE(close(out, expected.out, DType::f32, 4));
}

TEST(LayerNorm, ResidualIsTheRoundedSumAndItsLayerNorm) {
  for (const DType type : kComputeTypes) {
    for (const Size s : kSizes) {
      SCOPED_TRACE(fmt::format("{} ({}, {})", dtype_name(type), s.rows, s.n));
      const LayerNormInputs in(type, s);
      const Operand sum = Operand::output(type, {s.rows, s.n});
      const Operand out = Operand::output(type, {s.rows, s.n});
      const Operand mean = Operand::output(DType::f32, {s.rows});
      const Operand rstd = Operand::output(DType::f32, {s.rows});
      cpu().residual_layernorm_forward(sum, out, mean, rstd, in.x, in.dout, in.weight, in.bias);
      Values exact = in.x.values();
      const Values other = in.dout.values();
      for (size_t i = 0; i < exact.size(); ++i) exact[i] += other[i];
      EXPECT_TRUE(sum.same_bits(Operand(type, {s.rows, s.n}, exact)));
      const auto expected =
          reference::layernorm_forward(sum.values(), in.weight.values(), in.bias.values());
      EXPECT_TRUE(close(out, expected.out, type, 4));
      EXPECT_TRUE(close(mean, expected.mean, DType::f32, 4, 2.0));
      EXPECT_TRUE(close(rstd, expected.rstd, DType::f32, 8));
    }
  }
}

TEST(LayerNorm, BackwardAgreesWithDouble) {
  for (const DType type : kComputeTypes) {
    for (const Size s : kSizes) {
      for (const Grad mode : {Grad::overwrite, Grad::accumulate}) {
        for (const DType grad_type : {DType::f32, DType::bf16}) {
          SCOPED_TRACE(fmt::format("{} ({}, {}) mode {} dweight {}", dtype_name(type), s.rows, s.n,
                                   static_cast<int>(mode), dtype_name(grad_type)));
          const LayerNormInputs in(type, s);
          const auto forward = reference::layernorm_forward(in.x.values(), in.weight.values(), {});
          const Operand mean(DType::f32, {s.rows}, forward.mean);
          const Operand rstd(DType::f32, {s.rows}, forward.rstd);
          const bool accumulate = mode == Grad::accumulate;
          const Operand start = Operand::random(type, {s.rows, s.n}, 5);
          const Operand dinp = accumulate ? start : Operand::output(type, {s.rows, s.n});
          const Operand dweight = Operand::random(grad_type, {s.n}, 6);
          const Operand dbias = Operand::random(grad_type, {s.n}, 7);
          auto expected =
              reference::layernorm_backward(in.dout.values(), in.x.values(), in.weight.values());
          const Values before = start.values(), before_weight = dweight.values();
          const Values before_bias = dbias.values();
          for (size_t c = 0; c < static_cast<size_t>(s.n); ++c) {
            expected.dweight[c] += before_weight[c];
            expected.dbias[c] += before_bias[c];
          }
          for (size_t i = 0; accumulate && i < expected.dinp.size(); ++i) {
            expected.dinp[i] += before[i];
          }
          cpu().layernorm_backward(dinp, dweight, dbias, in.dout, in.x, mean, rstd, in.weight,
                                   mode);
          // Where n = 1 the exact gradient is 0: the scale is that of the terms, times rstd.
          const double scale = std::max(max_abs(expected.dinp), s.n < 3 ? 1e3 : 0.0);
          EXPECT_TRUE(close(dinp, expected.dinp, type, 8, scale));
          EXPECT_TRUE(close(dweight, expected.dweight, grad_type, 16));
          EXPECT_TRUE(close(dbias, expected.dbias, grad_type, 16));
        }
      }
    }
  }
}

// The columns of the rounded result, where the backend sums them in the same pass.
TEST(LayerNorm, BackwardSumsTheStreamsGradient) {
  if (!cpu().sums_stream_columns()) GTEST_SKIP() << "not by this backend";
  for (const DType type : kComputeTypes) {
    for (const Size s : {Size{1, 64}, {33, 97}, {70, 768}, {101, 2560}}) {
      SCOPED_TRACE(fmt::format("{} ({}, {})", dtype_name(type), s.rows, s.n));
      const LayerNormInputs in(type, s);
      const auto forward = reference::layernorm_forward(in.x.values(), in.weight.values(), {});
      const Operand mean(DType::f32, {s.rows}, forward.mean);
      const Operand rstd(DType::f32, {s.rows}, forward.rstd);
      const Operand dinp = Operand::random(type, {s.rows, s.n}, 5);
      const Operand dweight = Operand::zeros(DType::f32, {s.n}), dbias = dweight;
      const Operand sums = Operand::random(DType::f32, {s.n}, 6);
      Values expected = sums.values();
      cpu().layernorm_backward(dinp, dweight, dbias, in.dout, in.x, mean, rstd, in.weight,
                               Grad::accumulate, sums);
      const Values result = dinp.values();
      for (size_t i = 0; i < result.size(); ++i) {
        expected[i % static_cast<size_t>(s.n)] += result[i];
      }
      EXPECT_TRUE(close(sums, expected, DType::f32, 16));
    }
  }
}

TEST(LayerNorm, BackwardIsTheDerivative) {
  const LayerNormInputs in(DType::f32, {3, 7});
  const Values x = in.x.values(), weight = in.weight.values(), bias = in.bias.values();
  const Values dout = in.dout.values();
  const auto loss = [&](const Values& xs, const Values& ws, const Values& bs) {
    return dot(reference::layernorm_forward(xs, ws, bs).out, dout);
  };
  const auto grad = reference::layernorm_backward(dout, x, weight);
  const auto wrt_x = central_differences([&](const Values& v) { return loss(v, weight, bias); }, x);
  const auto wrt_w = central_differences([&](const Values& v) { return loss(x, v, bias); }, weight);
  const auto wrt_b = central_differences([&](const Values& v) { return loss(x, weight, v); }, bias);
  EXPECT_TRUE(close_values(grad.dinp, wrt_x, 1e-7));
  EXPECT_TRUE(close_values(grad.dweight, wrt_w, 1e-7));
  EXPECT_TRUE(close_values(grad.dbias, wrt_b, 1e-7));
}

TEST(LayerNorm, ThreadsDoNotMatter) {
  for (const DType type : kComputeTypes) {
    const LayerNormInputs in(type, {301, 200});
    expect_same_for_all_threads([&](Backend& backend) {
      const Operand sum = Operand::output(type, in.x.shape()), out = sum, dinp = sum;
      const Operand mean = Operand::output(DType::f32, {301}), rstd = mean;
      const Operand dweight = Operand::zeros(DType::f32, {200}), dbias = dweight;
      backend.residual_layernorm_forward(sum, out, mean, rstd, in.x, in.dout, in.weight, in.bias);
      backend.layernorm_backward(dinp, dweight, dbias, in.dout, in.x, mean, rstd, in.weight,
                                 Grad::overwrite);
      return std::vector<Operand>{sum, out, mean, rstd, dinp, dweight, dbias};
    });
  }
}

}  // namespace
}  // namespace stretto::test
