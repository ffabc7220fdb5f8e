// The linear layer against plain loops in double.
#include "reference/linear.h"

#include "backend/backend.h"
#include "backend/products.h"
#include "support/staged_backend.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

TEST(Linear, ForwardWithBiasAndGelu) {
  auto backend = make_backend(2);
  for (const ProductCase& c : kProducts) {
    SCOPED_TRACE(name_of(c));
    const Operand inp = Operand::random(c.type, {c.m, c.k}, 1);
    const Operand weight = Operand::random(c.type, {c.n, c.k}, 2, 1 / root(c.k));
    const Operand bias = Operand::random(c.type, {c.n}, 3);
    const Values expected =
        reference::linear_forward(inp.values(), weight.values(), bias.values(), c.m, c.n, c.k);
    const Operand out = Operand::output(c.type, {c.m, c.n});
    backend->linear_forward(out, inp, weight, bias);
    EXPECT_TRUE(close(out, expected, c.type, coefficient(c, c.k), 4));
    const Operand plain = Operand::output(c.type, {c.m, c.n});
    backend->linear_forward(plain, inp, weight, {});
    const Values unbiased =
        reference::linear_forward(inp.values(), weight.values(), {}, c.m, c.n, c.k);
    EXPECT_TRUE(close(plain, unbiased, c.type, coefficient(c, c.k), 4));

    for (const Gelu form : kGelus) {
      LinearOptions options;
      options.gelu = form;
      const Operand pre = Operand::output(c.type, {c.m, c.n});
      const Operand activated = Operand::output(c.type, {c.m, c.n});
      options.pre = pre;
      backend->linear_forward(activated, inp, weight, bias, options);
      // On a GPU the library's epilogues differ in the last bit, and GELU comes before the
      // rounding.
      EXPECT_TRUE(testing_cuda() ? close(pre, expected, c.type, coefficient(c, c.k), 4)
                                 : ::testing::AssertionResult(pre.same_bits(out)));
      Values gelu_of_pre = pre.values();
      for (double& x : gelu_of_pre) x = reference::gelu(x, form);
      EXPECT_TRUE(close(activated, gelu_of_pre, c.type, 4));
      // The separate operator gives the same bits: recomputation relies on it.
      const Operand separate = Operand::output(c.type, {c.m, c.n});
      backend->gelu_forward(separate, pre, form);
      EXPECT_TRUE(testing_cuda() ? close(separate, activated.values(), c.type, 4)
                                 : ::testing::AssertionResult(separate.same_bits(activated)));
      options.pre = {};
      const Operand without_pre = Operand::output(c.type, {c.m, c.n});
      backend->linear_forward(without_pre, inp, weight, bias, options);
      Values gelu_of_sum = expected;
      for (double& x : gelu_of_sum) x = reference::gelu(x, form);
      EXPECT_TRUE(close(without_pre, gelu_of_sum, c.type, 1.2 * coefficient(c, c.k), 4));
    }
  }
}

TEST(Linear, ForwardOntoAnAddend) {
  auto backend = make_backend(2);
  for (const ProductCase& c : kProducts) {
    SCOPED_TRACE(name_of(c));
    const Operand inp = Operand::random(c.type, {c.m, c.k}, 1);
    const Operand weight = Operand::random(c.type, {c.n, c.k}, 2, 1 / root(c.k));
    const Operand bias = Operand::random(c.type, {c.n}, 3);
    const Operand addend = Operand::random(c.type, {c.m, c.n}, 4);
    for (const bool biased : {true, false}) {
      const Values product = reference::linear_forward(
          inp.values(), weight.values(), biased ? bias.values() : Values(), c.m, c.n, c.k);
      const Operand out = Operand::output(c.type, {c.m, c.n});
      LinearOptions options;
      options.addend = addend;
      backend->linear_forward(out, inp, weight, biased ? ConstTensor(bias) : ConstTensor(),
                              options);
      EXPECT_TRUE(close(out, plus(product, addend.values()), c.type, coefficient(c, c.k), 4));
    }
  }
}

// As activation_checkpointing does: GELU's output takes the place of what it was taken of.
TEST(Linear, InputGradientWithGeluInPlace) {
  auto backend = make_backend(2);
  for (const ProductCase& c : kProducts) {
    for (const Gelu form : {Gelu::tanh, Gelu::exact}) {
      SCOPED_TRACE(fmt::format("{} gelu {}", name_of(c), static_cast<int>(form)));
      const Operand dout = Operand::random(c.type, {c.m, c.n}, 1);
      const Operand weight = Operand::random(c.type, {c.n, c.k}, 2, 1 / root(c.n));
      const Operand pre = Operand::random(c.type, {c.m, c.k}, 3);
      const Operand forward = Operand::output(c.type, {c.m, c.k});
      backend->gelu_forward(forward, pre, form);
      Values expected =
          reference::linear_backward_input(dout.values(), weight.values(), c.m, c.n, c.k);
      const Values pre_values = pre.values();
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] *= reference::gelu_grad(pre_values[i], form);
      }
      const Operand dinp = Operand::output(c.type, {c.m, c.k});
      const Operand dbias = Operand::zeros(DType::f32, {c.k});
      LinearInputGradOptions options;
      options.gelu = form;
      options.pre = pre;
      options.act = pre;
      options.dbias = dbias;
      backend->linear_backward_input(dinp, dout, weight, options);
      EXPECT_TRUE(close(dinp, expected, c.type, 1.2 * coefficient(c, c.n), 4));
      EXPECT_TRUE(pre.same_bits(forward));
      EXPECT_TRUE(close(dbias, reference::column_sums(dinp.values(), c.m, c.k), DType::f32,
                        coefficient(c.m), 1.0 + root(c.m)));
    }
  }
}

TEST(Linear, InputGradient) {
  auto backend = make_backend(2);
  for (const ProductCase& c : kProducts) {
    for (int variant = 0; variant < 6; ++variant) {
      const Gelu form = static_cast<Gelu>(variant % 3);
      const bool gelu = form != Gelu::none, accumulate = variant / 3 == 1;
      SCOPED_TRACE(fmt::format("{} gelu {} accumulate {}", name_of(c), variant % 3, accumulate));
      const Operand dout = Operand::random(c.type, {c.m, c.n}, 1);
      const Operand weight = Operand::random(c.type, {c.n, c.k}, 2, 1 / root(c.n));
      const Operand pre = Operand::random(c.type, {c.m, c.k}, 3);
      const Operand dinp =
          accumulate ? Operand::random(c.type, {c.m, c.k}, 4) : Operand::output(c.type, {c.m, c.k});
      const Operand dbias = Operand::random(DType::f32, {c.k}, 5);
      Values expected =
          reference::linear_backward_input(dout.values(), weight.values(), c.m, c.n, c.k);
      const Values pre_values = pre.values();
      for (size_t i = 0; gelu && i < expected.size(); ++i) {
        expected[i] *= reference::gelu_grad(pre_values[i], form);
      }
      if (accumulate) expected = plus(expected, dinp.values());
      const Values bias_before = dbias.values();
      LinearInputGradOptions options;
      options.gelu = form;
      const Operand act = Operand::output(c.type, {c.m, c.k});
      if (gelu) options.pre = pre;
      if (gelu) options.act = act;
      options.dbias = dbias;
      options.mode = accumulate ? Grad::accumulate : Grad::overwrite;
      backend->linear_backward_input(dinp, dout, weight, options);
      EXPECT_TRUE(close(dinp, expected, c.type, 1.2 * coefficient(c, c.n), 4));
      const Values sums = plus(reference::column_sums(dinp.values(), c.m, c.k), bias_before);
      EXPECT_TRUE(close(dbias, sums, DType::f32, coefficient(c.m), 1.0 + root(c.m)));
      if (!gelu) continue;
      const Operand forward = Operand::output(c.type, {c.m, c.k});
      backend->gelu_forward(forward, pre, form);
      EXPECT_TRUE(act.same_bits(forward));
    }
  }
}

TEST(Linear, WeightGradient) {
  auto backend = make_backend(2);
  for (const ProductCase& c : kProducts) {
    for (DType grad_type : {DType::f32, c.type}) {
      for (bool accumulate : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{} into {} accumulate {}", name_of(c), dtype_name(grad_type), accumulate));
        const Operand inp = Operand::random(c.type, {c.m, c.k}, 1);
        const Operand dout = Operand::random(c.type, {c.m, c.n}, 2, 1 / root(c.m));
        const Operand dweight = accumulate ? Operand::random(grad_type, {c.n, c.k}, 3)
                                           : Operand::output(grad_type, {c.n, c.k});
        const Operand dbias =
            accumulate ? Operand::random(grad_type, {c.n}, 4) : Operand::output(grad_type, {c.n});
        Values expected =
            reference::linear_backward_weight(inp.values(), dout.values(), c.m, c.n, c.k);
        Values sums = reference::column_sums(dout.values(), c.m, c.n);
        if (accumulate) {
          expected = plus(expected, dweight.values());
          sums = plus(sums, dbias.values());
        }
        backend->linear_backward_weight(dweight, dbias, inp, dout,
                                        accumulate ? Grad::accumulate : Grad::overwrite);
        const double rounding = grad_type == DType::f32 ? coefficient(c.m) : 2;
        EXPECT_TRUE(close(dweight, expected, grad_type, rounding, 4));
        EXPECT_TRUE(close(dbias, sums, grad_type, rounding, 4));
        const Operand unbiased = Operand::output(grad_type, {c.n, c.k});
        backend->linear_backward_weight(unbiased, {}, inp, dout, Grad::overwrite);
        EXPECT_TRUE(unbiased.guards_intact());
      }
    }
  }
}

TEST(Linear, ReferenceGradientsAreCentralDifferences) {
  const int64_t m = 3, n = 4, k = 5;
  const Values inp = Operand::random(DType::f32, {m, k}, 1).values();
  const Values weight = Operand::random(DType::f32, {n, k}, 2).values();
  const Values bias = Operand::random(DType::f32, {n}, 3).values();
  const Values dout = Operand::random(DType::f32, {m, n}, 4).values();
  const auto loss = [&](const Values& x, const Values& w, const Values& b) {
    return dot(dout, reference::linear_forward(x, w, b, m, n, k));
  };
  EXPECT_TRUE(close_values(
      reference::linear_backward_input(dout, weight, m, n, k),
      central_differences([&](const Values& x) { return loss(x, weight, bias); }, inp), 1e-8));
  EXPECT_TRUE(close_values(
      reference::linear_backward_weight(inp, dout, m, n, k),
      central_differences([&](const Values& w) { return loss(inp, w, bias); }, weight), 1e-8));
  EXPECT_TRUE(close_values(
      reference::column_sums(dout, m, n),
      central_differences([&](const Values& b) { return loss(inp, weight, b); }, bias), 1e-8));
}

TEST(Linear, SameBitsForAnyNumberOfThreads) {
  const int64_t m = 517, n = 390, k = 770;
  const Operand inp = Operand::random(DType::f32, {m, k}, 1);
  const Operand dout = Operand::random(DType::f32, {m, n}, 2);
  Operand first, first_bias;
  for (int threads : {1, 2, 3}) {
    auto backend = make_backend(threads);
    const Operand dweight = Operand::output(DType::f32, {n, k});
    const Operand dbias = Operand::output(DType::f32, {n});
    backend->linear_backward_weight(dweight, dbias, inp, dout, Grad::overwrite);
    if (first.count() == 0) {
      first = dweight;
      first_bias = dbias;
    }
    EXPECT_TRUE(first.same_bits(dweight)) << threads;
    EXPECT_TRUE(first_bias.same_bits(dbias)) << threads;
  }
}

}  // namespace
}  // namespace stretto::test
