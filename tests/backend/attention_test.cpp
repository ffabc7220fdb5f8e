// Causal attention against plain loops in double.
#include "backend/cpu/attention.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "backend/backend.h"
#include "reference/attention.h"
#include "reference/linear.h"
#include "support/ops.h"
#include "support/staged_backend.h"

namespace stretto::test {
namespace {

struct Case {
  int64_t b, t, h, d;
  DType type = DType::f32;
  bool alibi = false;
};

// Tile borders (64, 256), one more, one less; odd and prime sizes; size 1; the usual head sizes.
const Case kCases[] = {{1, 1, 1, 1},
                       {2, 3, 2, 5},
                       {1, 7, 3, 16},
                       {1, 63, 2, 64},
                       {2, 64, 1, 64},
                       {1, 65, 2, 64},
                       {1, 131, 1, 128},
                       {1, 257, 2, 32},
                       {1, 300, 1, 80},
                       {3, 33, 5, 7},
                       {1, 515, 1, 64},
                       {1, 70, 3, 64, DType::f32, true},
                       {2, 37, 6, 24, DType::f32, true},
                       {1, 300, 2, 64, DType::f32, true},
                       {1, 65, 2, 64, DType::bf16},
                       {2, 37, 3, 20, DType::bf16},
                       {1, 131, 2, 64, DType::f16},
                       {2, 19, 3, 9, DType::f16, true},
                       {1, 200, 2, 128, DType::bf16},
                       {2, 321, 1, 64, DType::bf16, true},
                       {3, 640, 2, 64, DType::bf16},
                       {1, 129, 2, 80, DType::f16, true}};

AttentionOptions options_of(const Case& c) {
  AttentionOptions options;
  options.heads = c.h;
  options.alibi = c.alibi;
  options.total_heads = c.h;
  return options;
}

reference::Attention reference_of(const Case& c) {
  reference::Attention reference{c.b, c.t, c.h, c.d, {}};
  for (int64_t head = 0; c.alibi && head < c.h; ++head) {
    reference.slopes.push_back(alibi_slope(head, c.h));
  }
  return reference;
}

std::string name_of(const Case& c) {
  return fmt::format("b {} t {} h {} d {} {}{}", c.b, c.t, c.h, c.d, dtype_name(c.type),
                     c.alibi ? " alibi" : "");
}

struct Results {
  Operand qkv, dout, out, lse, dqkv;
};

Results operands(const Case& c) {
  Results r;
  r.qkv = Operand::random(c.type, {c.b, c.t, 3, c.h, c.d}, 1, 1.5);
  r.dout = Operand::random(c.type, {c.b, c.t, c.h, c.d}, 2);
  r.out = Operand::output(c.type, {c.b, c.t, c.h, c.d});
  r.lse = Operand::output(DType::f32, {c.b, c.h, c.t});
  r.dqkv = Operand::output(c.type, {c.b, c.t, 3, c.h, c.d});
  return r;
}

Results run(const Case& c, int threads) {
  auto backend = make_backend(threads);
  const Results r = operands(c);
  backend->attention_forward(r.out, r.lse, r.qkv, options_of(c));
  backend->attention_backward(r.dqkv, r.dout, r.qkv, r.out, r.lse, options_of(c));
  return r;
}

// The kernel for AMX; its tiles are emulated where the CPU has none.
Results run_amx(const Case& c, int threads) {
  GemmContext context(threads);
  const Results r = operands(c);
  attention_forward_amx(r.out, r.lse, r.qkv, options_of(c), context);
  attention_backward_amx(r.dqkv, r.dout, r.qkv, r.out, r.lse, options_of(c), context);
  return r;
}

TEST(Attention, AmxAgreesWithPlainLoops) {
  for (const Case& c : {Case{1, 1, 1, 32, DType::bf16}, Case{1, 65, 2, 64, DType::bf16},
                        Case{1, 200, 2, 128, DType::bf16}, Case{2, 321, 1, 64, DType::bf16, true},
                        Case{1, 257, 3, 96, DType::bf16}}) {
    SCOPED_TRACE(name_of(c));
    const Results r = run_amx(c, 2);
    const reference::Attention reference = reference_of(c);
    Values lse;
    const Values out = reference.forward(r.qkv.values(), &lse);
    // Probabilities, and their gradients, are rounded to bf16 before they are multiplied.
    EXPECT_TRUE(close(r.out, out, c.type, 2));
    EXPECT_TRUE(close(r.lse, lse, DType::f32, 8 + std::sqrt(static_cast<double>(c.d))));
    const Values dqkv = reference.backward(r.dout.values(), r.qkv.values());
    EXPECT_TRUE(close(r.dqkv, dqkv, c.type, 8));
    const Results other = run_amx(c, 3);
    EXPECT_TRUE(r.out.same_bits(other.out));
    EXPECT_TRUE(r.dqkv.same_bits(other.dqkv));
  }
}

TEST(Attention, AgreesWithPlainLoops) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(name_of(c));
    const Results r = run(c, 2);
    const reference::Attention reference = reference_of(c);
    Values lse;
    const Values out = reference.forward(r.qkv.values(), &lse);
    const double length = std::sqrt(static_cast<double>(c.d));
    // Scores of magnitude up to about 10 are rounded before exp: their error becomes relative.
    EXPECT_TRUE(close(r.out, out, c.type, c.type == DType::f32 ? 16 + length : 1));
    EXPECT_TRUE(close(r.lse, lse, DType::f32, 8 + length));
    // In narrow types delta is taken from the rounded output.
    const Values dqkv = reference.backward(r.dout.values(), r.qkv.values());
    EXPECT_TRUE(close(r.dqkv, dqkv, c.type, c.type == DType::f32 ? 32 + 2 * length : 4));
  }
}

// Whole blocks of keys. (A test of its own, short enough for compute-sanitizer.)
TEST(Attention, BlocksOf128Keys) {
  for (const Case& c : {Case{1, 128, 1, 64, DType::bf16}, Case{2, 256, 3, 64, DType::bf16},
                        Case{1, 128, 1, 128, DType::bf16}, Case{2, 384, 3, 128, DType::bf16}}) {
    SCOPED_TRACE(name_of(c));
    const Results r = run(c, 2);
    const reference::Attention reference = reference_of(c);
    Values lse;
    const Values out = reference.forward(r.qkv.values(), &lse);
    EXPECT_TRUE(close(r.out, out, c.type, 2));
    EXPECT_TRUE(close(r.lse, lse, DType::f32, 8 + std::sqrt(static_cast<double>(c.d))));
    const Values dqkv = reference.backward(r.dout.values(), r.qkv.values());
    EXPECT_TRUE(close(r.dqkv, dqkv, c.type, 4));
  }
}

// Whether the kernel under test promises the same bits in every run: atomics add in any order.
bool repeats() {
  const char* kernel = std::getenv("STRETTO_TEST_ATTENTION");
  return kernel == nullptr || std::string_view(kernel) != "cudnn-atomic";
}

// The column sums of dq come on top of what is there; dqkv is the same with them.
TEST(Attention, SumsTheColumnsOfDq) {
  for (const Case& c :
       {Case{2, 9, 3, 4}, Case{1, 100, 2, 40, DType::bf16, true}, Case{3, 128, 1, 64, DType::bf16},
        Case{2, 384, 3, 64, DType::bf16}, Case{1, 128, 1, 128, DType::bf16},
        Case{2, 256, 3, 128, DType::bf16}, Case{2, 33, 3, 64, DType::f16}}) {
    SCOPED_TRACE(name_of(c));
    const int64_t rows = c.b * c.t, width = c.h * c.d;
    const Operand before = Operand::random(DType::f32, {width}, 5);
    const Results r = operands(c);
    auto backend = make_backend(2);
    backend->attention_forward(r.out, r.lse, r.qkv, options_of(c));
    const Operand sums = before;
    backend->attention_backward(r.dqkv, r.dout, r.qkv, r.out, r.lse, options_of(c), sums);
    const Values dqkv = reference_of(c).backward(r.dout.values(), r.qkv.values());
    EXPECT_TRUE(close(r.dqkv, dqkv, c.type, 4));
    Values expected = reference::column_sums(dqkv, rows, 3 * width);
    expected.resize(static_cast<size_t>(width));
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += before.values()[i];
    // Each row is off by its own rounding.
    const double scale = max_abs(dqkv) * std::sqrt(static_cast<double>(rows));
    EXPECT_TRUE(close(sums, expected, c.type, 2, scale));

    Operand rounded(DType::bf16, {width});
    rounded.set(before.values());
    const Results again = operands(c);
    backend->attention_backward(again.dqkv, r.dout, r.qkv, r.out, r.lse, options_of(c), rounded);
    EXPECT_TRUE(close(rounded, expected, DType::bf16, 2, scale + max_abs(expected)));
    if (!repeats()) continue;
    const Results without = operands(c);
    backend->attention_backward(without.dqkv, r.dout, r.qkv, r.out, r.lse, options_of(c));
    EXPECT_TRUE(r.dqkv.same_bits(without.dqkv) && r.dqkv.same_bits(again.dqkv));
  }
}

TEST(Attention, ReferenceGradientIsTheCentralDifference) {
  for (bool alibi : {false, true}) {
    const Case c{2, 5, 3, 4, DType::f32, alibi};
    const reference::Attention reference = reference_of(c);
    const Values x = Operand::random(DType::f32, {c.b, c.t, 3, c.h, c.d}, 1).values();
    const Values dout = Operand::random(DType::f32, {c.b, c.t, c.h, c.d}, 2).values();
    const auto loss = [&](const Values& v) { return dot(dout, reference.forward(v)); };
    EXPECT_TRUE(close_values(reference.backward(dout, x), central_differences(loss, x), 1e-8));
  }
}

TEST(Attention, SameBitsForAnyNumberOfThreadsAndEveryRun) {
  for (const Case& c : {Case{2, 333, 3, 64}, Case{1, 100, 2, 64, DType::bf16}}) {
    SCOPED_TRACE(name_of(c));
    const Results one = run(c, 1);
    for (int threads : {1, 2, 3}) {
      const Results other = run(c, threads);
      EXPECT_TRUE(one.out.same_bits(other.out)) << threads;
      EXPECT_TRUE(one.lse.same_bits(other.lse)) << threads;
      EXPECT_TRUE(one.dqkv.same_bits(other.dqkv)) << threads;
    }
  }
}

TEST(Attention, EveryInstructionSet) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const Case& c : {Case{1, 131, 2, 64}, Case{1, 37, 2, 20, DType::f32, true}}) {
      SCOPED_TRACE(fmt::format("{} {}", hwy::TargetName(target), name_of(c)));
      const Results r = run(c, 2);
      const reference::Attention reference = reference_of(c);
      const Values dqkv = reference.backward(r.dout.values(), r.qkv.values());
      EXPECT_TRUE(close(r.out, reference.forward(r.qkv.values()), c.type, 24));
      EXPECT_TRUE(close(r.dqkv, dqkv, c.type, 48));
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

// Large scores: the running maximum must keep exp in range.
TEST(Attention, LargeScoresStayFinite) {
  const Case c{1, 130, 1, 64};
  auto backend = make_backend(1);
  const Operand qkv = Operand::random(c.type, {c.b, c.t, 3, c.h, c.d}, 3, 30);
  const Operand out = Operand::output(c.type, {c.b, c.t, c.h, c.d});
  const Operand lse = Operand::output(DType::f32, {c.b, c.h, c.t});
  backend->attention_forward(out, lse, qkv, options_of(c));
  // Scores reach 1e4, so their f32 rounding alone moves a probability by 1e4 epsilons.
  EXPECT_TRUE(close(out, reference_of(c).forward(qkv.values()), DType::f32, 2e4));
}

// Decodes the tokens of qkv one by one, which must give the rows of `expected`.
void expect_decoded(const Case& c, const Operand& qkv, const Values& expected, double coefficient) {
  auto backend = make_backend(2);
  const Operand k_cache = Operand::output(c.type, {c.b, c.t + 2, c.h, c.d});
  const Operand v_cache = Operand::output(c.type, {c.b, c.t + 2, c.h, c.d});
  const size_t row = static_cast<size_t>(3 * c.h * c.d), wide = static_cast<size_t>(c.h * c.d);
  const size_t T = static_cast<size_t>(c.t), B = static_cast<size_t>(c.b);
  const Values all = qkv.values();
  for (size_t t = 0; t < T; ++t) {
    Values token, want;
    for (size_t b = 0; b < B; ++b) {
      const auto* first = all.data() + (b * T + t) * row;
      token.insert(token.end(), first, first + row);
      const auto* result = expected.data() + (b * T + t) * wide;
      want.insert(want.end(), result, result + wide);
    }
    const Operand one(c.type, {c.b, 1, 3, c.h, c.d}, token);
    const Operand out = Operand::output(c.type, {c.b, 1, c.h, c.d});
    backend->attention_decode(out, k_cache, v_cache, one, static_cast<int64_t>(t), options_of(c));
    ASSERT_TRUE(close(out, want, c.type, coefficient, 3)) << "position " << t;
  }
  EXPECT_TRUE(k_cache.guards_intact() && v_cache.guards_intact());
}

// Queries and keys whose scores are all about `score`, with a spread of some units around it.
Operand operand_with_scores(const Case& c, double score, uint64_t seed) {
  Values x = Operand::random(DType::f32, {c.b, c.t, 3, c.h, c.d}, seed, 0.5).values();
  const double root = std::sqrt(std::abs(score) / std::sqrt(static_cast<double>(c.d)));
  const auto width = static_cast<size_t>(c.h * c.d);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t part = i / width % 3;
    if (part == 0) x[i] += root;
    if (part == 1) x[i] += score < 0 ? -root : root;
  }
  return Operand(c.type, {c.b, c.t, 3, c.h, c.d}, x);
}

// Scores far from zero on one side, of numbers of keys that fill no vector: exp must be taken
// relative to the largest score of the row, and of nothing but the row.
TEST(Attention, ScoresFarFromZeroOnOneSide) {
  for (const Case& c : {Case{2, 37, 3, 8}, Case{1, 131, 2, 64},
                        Case{1, 21, 2, 16, DType::f32, true}, Case{1, 45, 2, 32, DType::bf16}}) {
    for (const double score : {-2000.0, -300.0, 300.0, 2000.0}) {
      for (const uint64_t seed : {11u, 12u, 13u}) {
        SCOPED_TRACE(fmt::format("{}, scores around {}, seed {}", name_of(c), score, seed));
        Results r = operands(c);
        r.qkv = operand_with_scores(c, score, seed);
        const reference::Attention reference = reference_of(c);
        Values lse;
        const Values out = reference.forward(r.qkv.values(), &lse);
        // The f32 rounding of a score moves a probability by that many epsilons.
        const double rounding = 4 * std::abs(score);
        const double bound = c.type == DType::f32 ? rounding : 2 + rounding / 0x1p16;
        auto backend = make_backend(2);
        backend->attention_forward(r.out, r.lse, r.qkv, options_of(c));
        EXPECT_TRUE(close(r.out, out, c.type, bound));
        EXPECT_TRUE(close(r.lse, lse, DType::f32, 16));
        if (supports_amx_attention(r.qkv, options_of(c))) {
          GemmContext context(2);
          attention_forward_amx(r.out, r.lse, r.qkv, options_of(c), context);
          EXPECT_TRUE(close(r.out, out, c.type, bound + 1));
        }
        expect_decoded(c, r.qkv, out, bound);
      }
    }
  }
}

TEST(Attention, SlopesFollowThePaper) {
  EXPECT_DOUBLE_EQ(alibi_slope(0, 8), 0.5);
  EXPECT_DOUBLE_EQ(alibi_slope(7, 8), 1.0 / 256);
  EXPECT_DOUBLE_EQ(alibi_slope(0, 12), 0.5);
  EXPECT_DOUBLE_EQ(alibi_slope(8, 12), std::exp2(-0.5));
  EXPECT_DOUBLE_EQ(alibi_slope(11, 12), std::exp2(-3.5));
}

// A shard of heads gives the slices of the whole.
TEST(Attention, HeadShardUsesGlobalSlopes) {
  auto backend = make_backend(1);
  const Operand qkv = Operand::random(DType::f32, {1, 20, 3, 1, 8}, 5);
  const Operand out = Operand::output(DType::f32, {1, 20, 1, 8});
  const Operand lse = Operand::output(DType::f32, {1, 1, 20});
  AttentionOptions options;
  options.heads = 1;
  options.alibi = true;
  options.first_head = 3;
  options.total_heads = 6;
  backend->attention_forward(out, lse, qkv, options);
  const reference::Attention reference{1, 20, 1, 8, {alibi_slope(3, 6)}};
  EXPECT_TRUE(close(out, reference.forward(qkv.values()), DType::f32, 16));
}

TEST(Attention, DecodeMatchesForward) {
  for (const Case& c : kCases) {
    if (c.t > 140) continue;
    SCOPED_TRACE(name_of(c));
    const Operand qkv = Operand::random(c.type, {c.b, c.t, 3, c.h, c.d}, 7);
    const Values expected = reference_of(c).forward(qkv.values());
    expect_decoded(c, qkv, expected, c.type == DType::f32 ? 32 : 1);
  }
}

// What the operator leaves out: the columns of dk sum to zero, and those of dv to what a bias of
// proj receives, taken back through proj.
TEST(QkvBias, ColumnSumsOfDqkvFollowFromDqAndProj) {
  const Case c{2, 9, 3, 4, DType::f32, true};
  const int64_t rows = c.b * c.t, width = c.h * c.d, n = 7;
  const Values qkv = Operand::random(DType::f32, {rows, 3 * width}, 1).values();
  const Values weight = Operand::random(DType::f32, {n, width}, 2).values();
  const Values dproj = Operand::random(DType::f32, {rows, n}, 3).values();
  const Values datt = reference::linear_backward_input(dproj, weight, rows, n, width);
  const Values dqkv = reference_of(c).backward(datt, qkv);
  const Values sums = reference::column_sums(dqkv, rows, 3 * width);
  const Values dproj_bias = reference::column_sums(dproj, rows, n);
  Values before = sums;  // those of dq, and zeros
  std::fill(before.begin() + width, before.end(), 0.0);
  EXPECT_TRUE(close_values(reference::qkv_bias_backward(before, weight, dproj_bias, n, width), sums,
                           1e-12));
}

TEST(QkvBias, AgreesWithPlainLoops) {
  struct Sizes {
    int64_t n, width;
    DType type, gradient;
  };
  for (const Sizes& s :
       {Sizes{1, 1, DType::f32, DType::f32}, Sizes{3, 7, DType::f32, DType::f32},
        Sizes{65, 64, DType::f32, DType::f32}, Sizes{96, 192, DType::bf16, DType::f32},
        Sizes{768, 768, DType::bf16, DType::f32}, Sizes{130, 40, DType::bf16, DType::bf16},
        Sizes{200, 130, DType::f16, DType::f32}}) {
    SCOPED_TRACE(
        fmt::format("{} of {}, {} {}", s.n, s.width, dtype_name(s.type), dtype_name(s.gradient)));
    const Operand weight = Operand::random(s.type, {s.n, s.width}, 2);
    const Operand dproj_bias = Operand::random(s.gradient, {s.n}, 3);
    const Operand dbias = Operand::random(s.gradient, {3 * s.width}, 4);
    const size_t width = static_cast<size_t>(s.width);
    const Values expected = reference::qkv_bias_backward(dbias.values(), weight.values(),
                                                         dproj_bias.values(), s.n, s.width);
    Operand first;
    for (int threads : {1, 3}) {
      const Operand result = dbias;
      make_backend(threads)->qkv_bias_backward(result, weight, dproj_bias);
      for (size_t i = 0; i < 2 * width; ++i) EXPECT_EQ(result.values()[i], dbias.values()[i]);
      const double terms = std::sqrt(static_cast<double>(s.n));
      EXPECT_TRUE(close(result, expected, s.gradient, s.gradient == DType::f32 ? 4 + 2 * terms : 2,
                        terms + 1));
      if (first.count() == 0) first = result;
      EXPECT_TRUE(first.same_bits(result)) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace stretto::test
