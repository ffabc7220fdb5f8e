// Every implementation of the matrix product against plain loops in double.
#include "backend/cpu/gemm.h"

#include <hwy/targets.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <thread>

#include "backend/cpu/gemm_implementations.h"
#include "backend/products.h"
#include "base/parallel_for.h"
#include "reference/linear.h"

namespace stretto::test {
namespace {

Values transposed_values(const Operand& x) {
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  const Values v = x.values();
  Values flipped(v.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      flipped[static_cast<size_t>(j * rows + i)] = v[static_cast<size_t>(i * columns + j)];
    }
  }
  return flipped;
}

TEST(Gemm, EveryImplementationAgreesWithPlainLoops) {
  for (const ProductCase& c : kProducts) {
    for (int layout = 0; layout < 4; ++layout) {
      const bool ta = layout % 2 == 1, tb = layout / 2 == 1;
      const Operand a = Operand::random(c.type, ta ? Shape{c.k, c.m} : Shape{c.m, c.k}, 1);
      const Operand b = Operand::random(c.type, tb ? Shape{c.n, c.k} : Shape{c.k, c.n}, 2);
      const Operand before = Operand::random(DType::f32, {c.m, c.n}, 3);
      const Values product =
          reference::linear_forward(ta ? transposed_values(a) : a.values(),
                                    tb ? b.values() : transposed_values(b), {}, c.m, c.n, c.k);
      for (const bool accumulate : {false, true}) {
        const Values expected = accumulate ? plus(product, before.values()) : product;
        for (const GemmImplementation& implementation : gemm_implementations()) {
          SCOPED_TRACE(fmt::format("{} {} ta {} tb {} accumulate {}", implementation.name,
                                   name_of(c), ta, tb, accumulate));
          const Operand out = accumulate ? before : Operand::output(DType::f32, {c.m, c.n});
          const GemmArgs args{
              c.m, c.n, c.k, matrix(a, ta), matrix(b, tb), output_matrix(out), accumulate, {}};
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
    ProductCase c;
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

// What ends a product: bias, GELU and rounding of a block in the middle of C. Wider than the piece
// of a bias that is held in f32 at once.
TEST(Gemm, EpilogueOfAWideBlock) {
  const int64_t m = 5, n = 2600, row0 = 2, column0 = 31, rows = 3, columns = 2500;
  const Operand x = Operand::random(DType::f32, {rows, columns}, 1);
  const Operand bias = Operand::random(DType::bf16, {n}, 2);
  const Operand c = Operand::random(DType::bf16, {m, n}, 3);
  GemmArgs args;
  args.m = m;
  args.n = n;
  args.c = output_matrix(c);
  args.epilogue.bias = bias.tensor().data();
  args.epilogue.bias_type = DType::bf16;
  args.epilogue.gelu = Gelu::tanh;
  args.accumulate = true;
  Values expected = c.values();
  const Values block = x.values(), shift = bias.values();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const auto column = static_cast<size_t>(column0 + j);
      const double sum = block[static_cast<size_t>(i * columns + j)] + shift[column];
      expected[static_cast<size_t>((row0 + i) * n) + column] += reference::gelu(sum, Gelu::tanh);
    }
  }
  finish_block(args, x.tensor().as<float>(), columns, row0, column0, rows, columns);
  EXPECT_TRUE(close(c, expected, DType::bf16, 1));
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

// The kernels of every instruction set that this machine can run.
TEST(Gemm, EveryInstructionSet) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const ProductCase& c : {ProductCase{61, 67, 389}, ProductCase{29, 65, 129, DType::bf16}}) {
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
    for (const ProductCase& c : {ProductCase{517, 390, 770}, ProductCase{100, 1600, 64},
                                 ProductCase{517, 77, 65, DType::bf16}}) {
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

}  // namespace
}  // namespace stretto::test
