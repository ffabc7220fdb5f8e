#include "reference/cross_entropy.h"

#include <cmath>

#include "support/ops.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

struct Case {
  int64_t rows, columns, padding;
};
constexpr Case kCases[] = {{1, 1, 0},    {3, 2, 0},      {5, 17, 3},    {7, 50, 0},
                           {2, 4099, 5}, {40, 1000, 24}, {3, 50257, 47}};

int64_t width(const Case& c) { return c.columns + c.padding; }

// Every third row is ignored, except where that would leave none.
Operand targets_of(const Case& c) {
  Operand targets(DType::i32, {c.rows});
  const CounterRng rng(5, 6);
  Values values;
  for (int64_t r = 0; r < c.rows; ++r) {
    const auto target =
        static_cast<double>(rng.bits(static_cast<uint64_t>(r)) % static_cast<uint64_t>(c.columns));
    values.push_back(r % 3 == 2 ? -1 : target);
  }
  targets.set(values);
  return targets;
}

struct Result {
  Operand lse, target, loss, dlogits;
};

Result run(Backend& backend, const Operand& logits, const Operand& targets, VocabRange vocab,
           double scale) {
  const Shape rows{targets.count()};
  Result r{Operand::output(DType::f32, rows), Operand::output(DType::f32, rows),
           Operand(DType::f64, {1}, {1.5}), logits};
  backend.cross_entropy_forward(r.lse, r.target, logits, targets, vocab);
  backend.cross_entropy_loss(r.loss, r.lse, r.target, targets);
  backend.cross_entropy_backward(r.dlogits, r.lse, targets, Operand(DType::f32, {1}, {scale}),
                                 vocab);
  return r;
}

void expect_agrees(const Result& r, const Case& c, const Operand& logits, const Operand& targets,
                   double scale) {
  const auto columns = static_cast<size_t>(c.columns);
  const Values x = logits.values(), t = targets.values();
  EXPECT_TRUE(
      close(r.lse, reference::row_lse(x, static_cast<size_t>(width(c)), columns), DType::f32, 2));
  EXPECT_NEAR(r.loss.values()[0] - 1.5, reference::cross_entropy(x, t, columns),
              2 * dtype_epsilon(DType::f32) * 200 * static_cast<double>(c.rows));
  // An error of lse (magnitude about 150) is a relative error of every probability.
  const DType type = logits.tensor().dtype();
  const double coefficient = type == DType::f32 ? 200 : 2;
  EXPECT_TRUE(close(r.dlogits, reference::cross_entropy_backward(x, t, columns, scale), type,
                    coefficient, scale));
}

TEST(CrossEntropy, AgreesWithDouble) {
  for (const DType type : kComputeTypes) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(fmt::format("{} ({}, {} + {})", dtype_name(type), c.rows, c.columns, c.padding));
      // Large logits: without subtracting the maximum, e^x overflows.
      const Operand logits = Operand::random(type, {c.rows, width(c)}, 1, 40.0);
      const Operand targets = targets_of(c);
      const double scale = 0.25;
      const Result r = run(cpu(), logits, targets, {0, c.columns}, scale);
      expect_agrees(r, c, logits, targets, scale);
    }
  }
}

// Widths around whole packs and whole rounds of a block, rows that do not count, infinite logits.
TEST(CrossEntropy, InOnePassIsTheSame) {
  for (const DType type : kComputeTypes) {
    for (const Case& c : {Case{1, 8, 0}, {5, 17, 7}, {4, 4096, 0}, {3, 4099, 5}, {3, 50257, 111}}) {
      SCOPED_TRACE(fmt::format("{} ({}, {} + {})", dtype_name(type), c.rows, c.columns, c.padding));
      const Operand logits = Operand::random(type, {c.rows, width(c)}, 1, 40.0);
      const Operand targets = targets_of(c);
      const double scale = 0.25;
      Result r{Operand::output(DType::f32, {c.rows}), Operand::output(DType::f32, {c.rows}),
               Operand(DType::f64, {1}, {1.5}), logits};
      cpu().cross_entropy_in_place(r.lse, r.target, r.loss, r.dlogits, targets,
                                   Operand(DType::f32, {1}, {scale}), {0, c.columns});
      expect_agrees(r, c, logits, targets, scale);
    }
  }
}

TEST(CrossEntropy, InOnePassHidesNoNan) {
  for (const int64_t at : {0, 8, 4095, 4096, 5001}) {
    Operand logits = Operand::random(DType::bf16, {1, 5008}, 1);
    Values values = logits.values();
    values[static_cast<size_t>(at)] = NAN;
    logits.set(values);
    const Operand lse = Operand::output(DType::f32, {1}), target = lse;
    const Operand loss(DType::f64, {1}, {0.0});
    cpu().cross_entropy_in_place(lse, target, loss, logits, Operand(DType::i32, {1}, {5}),
                                 Operand(DType::f32, {1}, {1.0}), {0, 5002});
    EXPECT_TRUE(std::isnan(lse.values()[0])) << at;
    EXPECT_TRUE(std::isnan(loss.values()[0])) << at;
  }
}

TEST(CrossEntropy, BackwardIsTheDerivative) {
  const Case c{4, 6, 2};
  const Values x = Operand::random(DType::f32, {4, 8}, 1).values();
  const Values t = targets_of(c).values();
  const auto loss = [&](const Values& v) { return 0.3 * reference::cross_entropy(v, t, 6); };
  EXPECT_TRUE(close_values(reference::cross_entropy_backward(x, t, 6, 0.3),
                           central_differences(loss, x), 1e-8));
}

TEST(CrossEntropy, ShardsEqualTheWhole) {
  const Case c{9, 101, 19};
  const Operand logits = Operand::random(DType::f32, {9, 120}, 1, 5.0), targets = targets_of(c);
  const Result whole = run(cpu(), logits, targets, {0, 101}, 2.0);
  constexpr int64_t kShards = 3, kWidth = 40;
  const Operand parts = Operand::output(DType::f32, {kShards, 9});
  Values target_sum(9, 0.0);
  std::vector<Operand> shards;
  for (int64_t s = 0; s < kShards; ++s) {
    Values slice;
    for (int64_t r = 0; r < 9; ++r) {
      for (int64_t k = 0; k < kWidth; ++k) {
        slice.push_back(logits.values()[static_cast<size_t>(r * 120 + s * kWidth + k)]);
      }
    }
    shards.emplace_back(DType::f32, Shape{9, kWidth}, slice);
    const Operand target = Operand::output(DType::f32, {9});
    cpu().cross_entropy_forward(parts.tensor().row_range(s, s + 1), target, shards.back(), targets,
                                {s * kWidth, 101});
    for (size_t r = 0; r < 9; ++r) target_sum[r] += target.values()[r];
  }
  const Operand lse = Operand::output(DType::f32, {9});
  cpu().combine_lse(lse, parts);
  EXPECT_TRUE(close(lse, whole.lse.values(), DType::f32, 2));
  EXPECT_EQ(target_sum, whole.target.values());
  for (int64_t s = 0; s < kShards; ++s) {
    const Operand& shard = shards[static_cast<size_t>(s)];
    cpu().cross_entropy_backward(shard, lse, targets, Operand(DType::f32, {1}, {2.0}),
                                 {s * kWidth, 101});
    Values expected;
    for (int64_t r = 0; r < 9; ++r) {
      for (int64_t k = 0; k < kWidth; ++k) {
        expected.push_back(whole.dlogits.values()[static_cast<size_t>(r * 120 + s * kWidth + k)]);
      }
    }
    EXPECT_TRUE(close(shard, expected, DType::f32, 32, 2.0)) << "shard " << s;
  }
}

TEST(CrossEntropy, AShardOfPaddingAddsNothing) {
  const Operand logits = Operand::random(DType::f32, {2, 8}, 1);
  const Operand targets(DType::i32, {2}, {3, 4});
  const Operand lse = Operand::output(DType::f32, {2}), target = lse;
  cpu().cross_entropy_forward(lse, target, logits, targets, {64, 60});
  EXPECT_EQ(lse.values(), Values(2, -INFINITY));
  EXPECT_EQ(target.values(), Values(2, 0.0));
  const Operand parts(DType::f32, {2, 2}, {1.5, 2.5, -INFINITY, -INFINITY});
  cpu().combine_lse(lse, parts);
  EXPECT_EQ(lse.values(), (Values{1.5, 2.5}));
  cpu().cross_entropy_backward(logits, lse, targets, Operand(DType::f32, {1}, {1.0}), {64, 60});
  EXPECT_EQ(logits.values(), Values(16, 0.0));
}

TEST(CrossEntropy, NanAndInfinityAreNotHidden) {
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    for (const int64_t at : {0, 8, 36, 2999}) {
      Operand logits = Operand::random(DType::f32, {1, 3000}, 1);
      Values values = logits.values();
      values[static_cast<size_t>(at)] = bad;
      logits.set(values);
      const Operand lse = Operand::output(DType::f32, {1}), target = lse;
      cpu().cross_entropy_forward(lse, target, logits, Operand(DType::i32, {1}, {5}), {0, 3000});
      EXPECT_FALSE(std::isfinite(lse.values()[0])) << bad << " at " << at;
    }
  }
}

TEST(CrossEntropy, ThreadsDoNotMatter) {
  const Case c{37, 3001, 7};
  for (const DType type : kComputeTypes) {
    const Operand logits = Operand::random(type, {37, 3008}, 1, 3.0), targets = targets_of(c);
    expect_same_for_all_threads([&](Backend& backend) {
      const Result r = run(backend, logits, targets, {0, 3001}, 0.5);
      return std::vector<Operand>{r.lse, r.target, r.loss, r.dlogits};
    });
  }
}

}  // namespace
}  // namespace stretto::test
