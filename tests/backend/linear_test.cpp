// Matrix products and the linear layer against plain loops in double, for every implementation.
#include "reference/linear.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <thread>

#include "backend/backend.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_implementations.h"
#include "base/parallel_for.h"
#include "support/ops.h"
#include "support/staged_backend.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

struct Case {
  int64_t m, n, k;
  DType type = DType::f32;
};

// Odd, prime and size 1; around the borders of register tiles and cache blocks.
const Case kCases[] = {{1, 1, 1},
                       {1, 5, 3},
                       {7, 1, 2},
                       {3, 4, 1},
                       {13, 17, 19},
                       {31, 33, 47},
                       {64, 96, 80},
                       {29, 65, 129},
                       {257, 97, 31},
                       {15, 780, 33},
                       {100, 49, 700},
                       {226, 100, 400},
                       {13, 17, 19, DType::bf16},
                       {61, 67, 389, DType::bf16},
                       {1, 33, 64, DType::bf16},
                       {13, 17, 19, DType::f16},
                       {61, 67, 389, DType::f16}};

std::string name_of(const Case& c) {
  return fmt::format("m {} n {} k {} {}", c.m, c.n, c.k, dtype_name(c.type));
}

double root(int64_t x) { return std::sqrt(static_cast<double>(x)); }

// Rounding of a sum of k products grows like its square root; plus the rounding of the result.
double coefficient(int64_t k) { return 4 + 2 * root(k); }
// Narrow types: f32 sums, one or two roundings of the result.
double coefficient(const Case& c, int64_t k) { return c.type == DType::f32 ? coefficient(k) : 2; }

ConstMatrix matrix(const Operand& x, bool transposed = false) {
  return {x.tensor().data(), x.dtype(), x.shape().last(), transposed};
}
Matrix output_matrix(const Operand& x) { return {x.tensor().data(), x.dtype(), x.shape().last()}; }

Values plus(Values a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

TEST(Gemm, EveryImplementationAgreesWithPlainLoops) {
  for (const GemmImplementation& implementation : gemm_implementations()) {
    for (const Case& c : kCases) {
      for (int layout = 0; layout < 4; ++layout) {
        for (bool accumulate : {false, true}) {
          const bool ta = layout % 2 == 1, tb = layout / 2 == 1;
          SCOPED_TRACE(fmt::format("{} {} ta {} tb {} accumulate {}", implementation.name,
                                   name_of(c), ta, tb, accumulate));
          const Operand a = Operand::random(c.type, ta ? Shape{c.k, c.m} : Shape{c.m, c.k}, 1);
          const Operand b = Operand::random(c.type, tb ? Shape{c.n, c.k} : Shape{c.k, c.n}, 2);
          const Operand out = accumulate ? Operand::random(DType::f32, {c.m, c.n}, 3)
                                         : Operand::output(DType::f32, {c.m, c.n});
          const auto at = [](const Operand& x, bool t) {
            const int64_t rows = x.shape()[0], columns = x.shape()[1];
            Values v = x.values();
            if (!t) return v;
            Values flipped(v.size());
            for (int64_t i = 0; i < rows; ++i) {
              for (int64_t j = 0; j < columns; ++j) {
                flipped[static_cast<size_t>(j * rows + i)] =
                    v[static_cast<size_t>(i * columns + j)];
              }
            }
            return flipped;
          };
          Values expected = reference::linear_forward(at(a, ta), at(b, !tb), {}, c.m, c.n, c.k);
          if (accumulate) expected = plus(expected, out.values());
          GemmArgs args;
          args.m = c.m;
          args.n = c.n;
          args.k = c.k;
          args.a = matrix(a, ta);
          args.b = matrix(b, tb);
          args.c = output_matrix(out);
          args.accumulate = accumulate;
          if (!implementation.supports(args)) continue;
          GemmContext context(2);
          gemm(args, context, implementation.choice);
          EXPECT_TRUE(close(out, expected, DType::f32, coefficient(c.k), root(c.k) + 1));
        }
      }
    }
  }
}

// Sizes at which our own product packs A in parts: slabs of rows, and where sums are not kept in C
// itself, slabs of k. One column or two, so that the reference is quick.
TEST(Gemm, SlabsOfRowsAndOfK) {
  struct Large {
    Case c;
    bool transposed;
  };
  for (const auto& [c, transposed] : {Large{{4100, 2, 390}, false},
                                      {{8195, 1, 5}, true},
                                      {{2731, 1, 1537}, true},
                                      {{2731, 2, 1540, DType::bf16}, false}}) {
    SCOPED_TRACE(fmt::format("{} transposed {}", name_of(c), transposed));
    const auto entry = [](int64_t i, int64_t p) {
      return static_cast<double>((i * 5 + p * 3) % 17 - 8);
    };
    const Operand a(c.type, transposed ? Shape{c.k, c.m} : Shape{c.m, c.k});
    const Operand b = Operand::random(c.type, {c.n, c.k}, 2),
                  bias = Operand::random(DType::f32, {c.n}, 4);
    const Values of_b = b.values();
    Values product(static_cast<size_t>(c.m * c.n));
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t p = 0; p < c.k; ++p) {
        const double x = entry(i, p);
        store_element(a.tensor().data(), c.type, transposed ? p * c.m + i : i * c.k + p, x);
        for (int64_t j = 0; j < c.n; ++j) {
          product[static_cast<size_t>(i * c.n + j)] += x * of_b[static_cast<size_t>(j * c.k + p)];
        }
      }
    }
    GemmArgs args{c.m, c.n, c.k, matrix(a, transposed), matrix(b, true), {}, false, {}};
    const Operand plain = Operand::output(DType::f32, {c.m, c.n});
    args.c = output_matrix(plain);
    GemmContext two(2);
    gemm(args, two, GemmChoice::own);
    EXPECT_TRUE(close(plain, product, DType::f32, coefficient(c.k), 5 * root(c.k)));
    const Operand before = Operand::random(c.type, {c.m, c.n}, 3);
    Values expected = plus(product, before.values());
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] += bias.values()[i % static_cast<size_t>(c.n)];
    }
    args.accumulate = true;
    args.epilogue.bias = bias.tensor().data();
    for (const int threads : {1, 3}) {
      const Operand out = before;
      args.c = output_matrix(out);
      GemmContext context(threads);
      gemm(args, context, GemmChoice::own);
      EXPECT_TRUE(close(out, expected, c.type, coefficient(c, c.k), 5 * root(c.k))) << threads;
    }
  }
}

TEST(Gemm, LibraryBlocksCoverTheResultOnce) {
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {64, 768}, {256, 768}, {255, 769}, {300, 200}, {1024, 50257}, {7, 5000}}) {
    const LibraryBlocks blocks(m, n);
    EXPECT_LE(blocks.rows, LibraryBlocks::kRows);
    EXPECT_LE(blocks.columns, LibraryBlocks::kColumns);
    int64_t covered = 0;
    for (int64_t i = 0; i < blocks.count(); ++i) {
      ASSERT_LT(blocks.row(i), m);
      ASSERT_LT(blocks.column(i), n);
      covered +=
          std::min(blocks.rows, m - blocks.row(i)) * std::min(blocks.columns, n - blocks.column(i));
    }
    EXPECT_EQ(covered, m * n) << m << " x " << n;
  }
  EXPECT_EQ(LibraryBlocks(256, 768).count(), 8) << "a product of one block, shared by threads";
  EXPECT_EQ(LibraryBlocks(2048, 3072).rows, 256) << "enough as it is";
}

TEST(Linear, ForwardWithBiasAndGelu) {
  auto backend = make_backend(2);
  for (const Case& c : kCases) {
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
  for (const Case& c : kCases) {
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
  for (const Case& c : kCases) {
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
  for (const Case& c : kCases) {
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
  for (const Case& c : kCases) {
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

// The kernels of every instruction set that this machine can run.
TEST(Gemm, EveryInstructionSet) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const Case& c : {Case{61, 67, 389}, Case{29, 65, 129, DType::bf16}}) {
      SCOPED_TRACE(fmt::format("{} {}", hwy::TargetName(target), name_of(c)));
      const Operand a = Operand::random(c.type, {c.m, c.k}, 1);
      const Operand b = Operand::random(c.type, {c.n, c.k}, 2);
      const Operand out = Operand::output(DType::f32, {c.m, c.n});
      GemmArgs args;
      args.m = c.m;
      args.n = c.n;
      args.k = c.k;
      args.a = matrix(a);
      args.b = matrix(b, true);
      args.c = output_matrix(out);
      GemmContext context(2);
      gemm(args, context, GemmChoice::own);
      const Values expected = reference::linear_forward(a.values(), b.values(), {}, c.m, c.n, c.k);
      EXPECT_TRUE(close(out, expected, DType::f32, coefficient(c.k), root(c.k) + 1));
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

// A library that starts its own threads under each of ours has cores fought over: bf16 products of
// oneDNN took twice as long on two threads. The second of ours is new to OpenMP, as a rank's are.
TEST(Gemm, LibrariesStartNoThreads) {
  const auto threads_of_process = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  for (const GemmImplementation& implementation : gemm_implementations()) {
    const Operand a = Operand::random(DType::f32, {512, 64}, 1);
    const Operand b = Operand::random(DType::f32, {1536, 64}, 2);
    const Operand out = Operand::output(DType::f32, {512, 1536});
    GemmArgs args;
    args.m = 512;
    args.n = 1536;
    args.k = 64;
    args.a = matrix(a);
    args.b = matrix(b, true);
    args.c = output_matrix(out);
    if (!implementation.supports(args)) continue;
    std::thread([&] {
      GemmContext context(2);
      std::atomic<int> here{0};
      parallel_for(2, 2, [&](int64_t, int) {  // until both are there
        for (++here; here < 2;) std::this_thread::yield();
      });
      const auto before = threads_of_process();
      gemm(args, context, implementation.choice);
      EXPECT_EQ(threads_of_process(), before) << implementation.name;
    }).join();
  }
}

// 1, 2 and 3 threads, and the same again, each started by a thread of its own as ranks are: every
// bit equal, for every implementation.
TEST(Gemm, SameBitsForAnyNumberOfThreadsAndEveryRun) {
  for (const GemmImplementation& implementation : gemm_implementations()) {
    for (const Case& c :
         {Case{517, 390, 770}, Case{100, 1600, 64}, Case{517, 77, 65, DType::bf16}}) {
      SCOPED_TRACE(fmt::format("{} {}", implementation.name, name_of(c)));
      const Operand a = Operand::random(c.type, {c.m, c.k}, 1);
      const Operand b = Operand::random(c.type, {c.n, c.k}, 2);
      const Operand bias = Operand::random(c.type, {c.n}, 3);
      Operand first;
      for (int threads : {1, 2, 3, 1, 2}) {
        const Operand out = Operand::output(c.type, {c.m, c.n});
        GemmArgs args;
        args.m = c.m;
        args.n = c.n;
        args.k = c.k;
        args.a = matrix(a);
        args.b = matrix(b, true);
        args.c = output_matrix(out);
        args.epilogue.bias = bias.tensor().data();
        args.epilogue.bias_type = c.type;
        args.epilogue.gelu = Gelu::tanh;
        if (!implementation.supports(args)) continue;
        GemmContext context(threads);
        std::thread([&] { gemm(args, context, implementation.choice); }).join();
        if (first.count() == 0) first = out;
        EXPECT_TRUE(first.same_bits(out)) << threads << " threads";
      }
    }
  }
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
