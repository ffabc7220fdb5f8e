#include "reference/adamw.h"

#include <cmath>
#include <limits>

#include "base/split_f32.h"
#include "support/ops.h"
#include "support/threads.h"

namespace stretto::test {
namespace {

const Operand kGo(DType::f32, {2}, {1.0, 0.0});

AdamWOptions options_at(int64_t step) {
  AdamWOptions options;
  options.lr = 1e-2f;
  options.weight_decay = 0.1f;
  options.step = step;
  options.seed = 99;
  return options;
}

reference::AdamW reference_of(const AdamWOptions& o) {
  return {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay};
}

struct State {
  Operand weight, master, m, v;

  State(DType type, int64_t n, bool with_master, DType moments = DType::f32)
      : weight(Operand::random(type, {n}, 1)),
        master(!with_master          ? Operand()
               : type == DType::bf16 ? Operand::zeros(DType::u16, {n})
                                     : weight.as(DType::f32)),
        m(Operand::zeros(moments, {n})),
        v(Operand::zeros(moments, {n})) {}

  // What is updated, in f32.
  Operand whole() const {
    if (master.dtype() != DType::u16) return master.count() > 0 ? master : weight;
    Operand out(DType::f32, weight.shape());
    for (int64_t i = 0; i < weight.count(); ++i) {
      out.tensor().as<float>()[i] =
          join({weight.tensor().as<bf16_t>()[i], master.tensor().as<uint16_t>()[i]});
    }
    return out;
  }
};

TEST(AdamW, TwentyStepsFollowThePublishedFormula) {
  for (const DType type : kComputeTypes) {
    for (const int64_t n : {1, 17, 1009, 17000}) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_name(type), n));
      const bool mixed = type != DType::f32;
      State s(type, n, mixed);
      Values theta = s.weight.values(), m(theta.size(), 0.0), v(theta.size(), 0.0);
      for (int64_t step = 1; step <= 20; ++step) {
        const Operand grad = Operand::random(DType::f32, {n}, static_cast<uint64_t>(10 + step));
        const AdamWOptions options = options_at(step);
        cpu().adamw(s.weight, s.master, s.m, s.v, grad, kGo, options);
        const Values g = grad.values();
        for (size_t i = 0; i < theta.size(); ++i) {
          reference_of(options).step(theta[i], m[i], v[i], g[i], step);
        }
      }
      EXPECT_TRUE(close(s.m, m, DType::f32, 8));
      EXPECT_TRUE(close(s.v, v, DType::f32, 8));
      EXPECT_TRUE(close(s.whole(), theta, DType::f32, 8));
      EXPECT_TRUE(s.weight.same_bits(s.whole().as(type)));
      EXPECT_TRUE(s.weight.guards_intact());
      EXPECT_TRUE(s.master.guards_intact());
    }
  }
}

// bf16 weights and their lower halves take the steps of f32 weights, to the bit, but for values
// half-way between two bf16: those are moved off.
TEST(AdamW, HalvesFollowF32) {
  constexpr int64_t kCount = 20011;
  State halves(DType::bf16, kCount, true), whole(DType::f32, kCount, false);
  whole.weight = halves.weight.as(DType::f32);
  for (int64_t step = 1; step <= 5; ++step) {
    const Operand grad = Operand::random(DType::f32, {kCount}, static_cast<uint64_t>(step));
    cpu().adamw(halves.weight, halves.master, halves.m, halves.v, grad, kGo, options_at(step));
    cpu().adamw(whole.weight, {}, whole.m, whole.v, grad, kGo, options_at(step));
    for (int64_t i = 0; i < kCount; ++i) {
      float& x = whole.weight.tensor().as<float>()[i];
      x = off_tie(x);
    }
    ASSERT_TRUE(halves.whole().same_bits(whole.weight)) << step;
    ASSERT_TRUE(halves.weight.same_bits(whole.weight.as(DType::bf16))) << step;
  }
}

// With nothing to learn no bit changes: zeros with their signs, subnormals, the smallest and
// largest, what rounds to infinity.
TEST(AdamW, HalvesOfEdgesStayAsTheyAre) {
  std::vector<uint32_t> bits;
  for (const uint32_t x : {0x00000000u, 0x00000001u, 0x00007fffu, 0x00008001u, 0x007fffffu,
                           0x00800000u, 0x3f7fffffu, 0x7f7f7fffu, 0x7f7fffffu, 0x7f800000u}) {
    bits.push_back(x);
    bits.push_back(x | 0x80000000u);
  }
  const auto count = static_cast<int64_t>(bits.size());
  State s(DType::bf16, count, true);
  for (int64_t i = 0; i < count; ++i) {
    const SplitF32 x = split(std::bit_cast<float>(bits[static_cast<size_t>(i)]));
    s.weight.tensor().as<bf16_t>()[i] = x.high;
    s.master.tensor().as<uint16_t>()[i] = x.low;
  }
  AdamWOptions options = options_at(1);
  options.lr = 0;
  cpu().adamw(s.weight, s.master, s.m, s.v, Operand::zeros(DType::f32, {count}), kGo, options);
  const Operand after = s.whole();
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(after.tensor().as<float>()[i]), bits[static_cast<size_t>(i)]);
  }
}

// Weights that decay to exactly half-way between two bf16.
TEST(AdamW, HalvesAreMovedOffTies) {
  Values before;
  for (uint32_t high = 0x3f80u; high < 0x4000u; ++high) {
    const auto tie = std::bit_cast<float>(high << 16 | 0x8000u);
    if (tie / 0.75f * 0.75f == tie) before.push_back(tie / 0.75f);
  }
  const auto count = static_cast<int64_t>(before.size());
  ASSERT_GT(count, 20);
  State s(DType::bf16, count, true);
  for (int64_t i = 0; i < count; ++i) {
    const SplitF32 x = split(static_cast<float>(before[static_cast<size_t>(i)]));
    s.weight.tensor().as<bf16_t>()[i] = x.high;
    s.master.tensor().as<uint16_t>()[i] = x.low;
  }
  AdamWOptions options = options_at(1);
  options.lr = options.weight_decay = 0.5f;
  cpu().adamw(s.weight, s.master, s.m, s.v, Operand::zeros(DType::f32, {count}), kGo, options);
  const Values after = s.whole().values();
  for (size_t i = 0; i < before.size(); ++i) {
    const float decayed = static_cast<float>(before[i]) * 0.75f;
    ASSERT_EQ(std::bit_cast<uint32_t>(decayed) & 0xffffu, 0x8000u);
    EXPECT_EQ(static_cast<float>(after[i]), off_tie(decayed)) << before[i];
  }
}

TEST(AdamW, MasterMayBeTheWeightItself) {
  State alone(DType::f32, 77, false), same = alone;
  const Operand grad = Operand::random(DType::f32, {77}, 3);
  cpu().adamw(alone.weight, {}, alone.m, alone.v, grad, kGo, options_at(1));
  cpu().adamw(same.weight, same.weight, same.m, same.v, grad, kGo, options_at(1));
  EXPECT_TRUE(alone.weight.same_bits(same.weight));
}

TEST(AdamW, ControlScalesTheGradientOrSkips) {
  State s(DType::f32, 100, false);
  State scaled = s, skipped = s;
  const Operand grad = Operand::random(DType::f32, {100}, 3);
  Values quarter = grad.values();
  for (double& x : quarter) x *= 0.25;
  cpu().adamw(s.weight, {}, s.m, s.v, Operand(DType::f32, {100}, quarter), kGo, options_at(1));
  cpu().adamw(scaled.weight, {}, scaled.m, scaled.v, grad, Operand(DType::f32, {2}, {0.25, 0.0}),
              options_at(1));
  EXPECT_TRUE(s.weight.same_bits(scaled.weight));
  EXPECT_TRUE(s.m.same_bits(scaled.m));
  EXPECT_TRUE(s.v.same_bits(scaled.v));
  const State before = skipped;
  const Operand broken = Operand::output(DType::f32, {100});
  cpu().adamw(skipped.weight, {}, skipped.m, skipped.v, broken,
              Operand(DType::f32, {2}, {0.0, 1.0}), options_at(1));
  EXPECT_TRUE(skipped.weight.same_bits(before.weight));
  EXPECT_TRUE(skipped.m.same_bits(before.m));
  EXPECT_TRUE(skipped.v.same_bits(before.v));
}

// bf16 weights of 1 after a first step, which moves each by `lr` before it is rounded.
Values ones_moved_by(float lr, int64_t count) {
  const auto all = static_cast<size_t>(count);
  const Operand weight(DType::bf16, {count}, Values(all, 1.0));
  const Operand m = Operand::zeros(DType::f32, {count}), v = m;
  const Operand grad(DType::f32, {count}, Values(all, -1.0));
  AdamWOptions options = options_at(1);
  options.weight_decay = 0;
  options.lr = lr;
  cpu().adamw(weight, {}, m, v, grad, kGo, options);
  return weight.values();
}

// bf16 weights near 1 have steps of 2^-7; an update of 1/16 of that must move the mean all the
// same, and no weight may leave the two neighbours.
TEST(AdamW, PureBf16RoundsStochastically) {
  constexpr int64_t kCount = 40000;
  double up = 0;
  for (const double x : ones_moved_by(0x1p-11f, kCount)) {
    ASSERT_TRUE(x == 1.0 || x == 1.0 + 0x1p-7) << x;
    up += x > 1.0 ? 1 : 0;
  }
  // Binomial(40000, 1/16): five standard deviations are 242.
  EXPECT_NEAR(up, kCount / 16.0, 242);
}

// Four neighbours take their random bits from one hash: each must go up as often as the others, and
// any two of them together as often as chance has it. So must neighbours of different fours.
TEST(AdamW, NeighboursRoundIndependently) {
  constexpr int64_t kCount = 160000;
  const Values moved = ones_moved_by(0x1p-9f, kCount);  // a quarter of the way to the neighbour
  const auto up = [&](int64_t i) { return moved[static_cast<size_t>(i)] > 1.0; };
  constexpr double kFours = kCount / 4;
  for (int64_t a = 0; a < 4; ++a) {
    for (int64_t b = a; b < 8; ++b) {
      double together = 0;
      for (int64_t i = 0; i + 8 <= kCount; i += 4) together += up(i + a) && up(i + b) ? 1 : 0;
      const double chance = a == b ? 0.25 : 0.0625;
      EXPECT_NEAR(together, kFours * chance, 5 * std::sqrt(kFours * chance * (1 - chance)))
          << a << " " << b;
    }
  }
}

TEST(AdamW, Bf16MomentsDecayInTheMean) {
  constexpr int64_t kCount = 20000;
  State s(DType::f32, kCount, false, DType::bf16);
  s.v.set(Values(kCount, 1.0));
  AdamWOptions options = options_at(1);
  options.beta2 = 0.999f;  // 0.1 % a step: below half a step of bf16
  for (int64_t step = 1; step <= 10; ++step) {
    options.step = step;
    cpu().adamw(s.weight, {}, s.m, s.v, Operand::zeros(DType::f32, {kCount}), kGo, options);
  }
  double mean = 0;
  for (const double x : s.v.values()) mean += x / kCount;
  EXPECT_NEAR(mean, std::pow(0.999, 10), 5e-4);
}

TEST(AdamW, RoundingDoesNotDependOnSharding) {
  constexpr int64_t kCount = 30001;
  for (const uint64_t base : {uint64_t{0}, (uint64_t{1} << 32) - 700}) {
    State whole(DType::bf16, kCount, false, DType::bf16), parts = whole, other = whole;
    const Operand grad = Operand::random(DType::bf16, {kCount}, 3);
    AdamWOptions options = options_at(7);
    options.first_index = base;
    cpu().adamw(whole.weight, {}, whole.m, whole.v, grad, kGo, options);
    const int64_t cuts[] = {0, 1, 600, 701, 12533, kCount};
    for (int k = 0; k < 5; ++k) {
      const int64_t a = cuts[k], b = cuts[k + 1];
      options.first_index = base + static_cast<uint64_t>(a);
      cpu().adamw(parts.weight.tensor().slice(a, b), {}, parts.m.tensor().slice(a, b),
                  parts.v.tensor().slice(a, b), grad.tensor().slice(a, b), kGo, options);
    }
    EXPECT_TRUE(whole.weight.same_bits(parts.weight));
    EXPECT_TRUE(whole.m.same_bits(parts.m));
    EXPECT_TRUE(whole.v.same_bits(parts.v));
    options.first_index = base;
    options.step = 8;
    other.m = whole.m;
    cpu().adamw(other.weight, {}, other.m, other.v, grad, kGo, options);
    EXPECT_FALSE(whole.weight.same_bits(other.weight));
  }
}

TEST(AdamW, WhatIsNotANumberStaysSoInPureBf16) {
  constexpr int64_t kCount = 30000;
  State s(DType::bf16, kCount, false, DType::bf16), clean = s;
  const Operand grad = Operand::random(DType::bf16, {kCount}, 3);
  Values broken = grad.values();
  const size_t at[] = {5, 8191, 20001, kCount - 1};
  for (const size_t i : at) broken[i] = std::numeric_limits<double>::quiet_NaN();
  cpu().adamw(s.weight, {}, s.m, s.v, Operand(DType::bf16, {kCount}, broken), kGo, options_at(2));
  cpu().adamw(clean.weight, {}, clean.m, clean.v, grad, kGo, options_at(2));
  const Values weight = s.weight.values(), m = s.m.values(), v = s.v.values();
  Values expected = clean.weight.values();
  for (const size_t i : at) {
    EXPECT_TRUE(std::isnan(weight[i]) && std::isnan(m[i]) && std::isnan(v[i])) << i;
    expected[i] = 0;
  }
  for (size_t i = 0; i < weight.size(); ++i) {
    if (std::isnan(weight[i])) continue;
    ASSERT_EQ(weight[i], expected[i]) << i;
  }
}

// Random bits added to one of these would carry into its sign, or take it for infinity.
TEST(AdamW, NoRandomBitsMakeANumberOfWhatIsNone) {
  for (const uint32_t nan : {0x7fffffffu, 0xffffffffu, 0x7f800001u, 0xff80ffffu, 0x7fc00000u}) {
    constexpr int64_t kCount = 200;
    State s(DType::bf16, kCount, false, DType::bf16);
    const Operand grad = Operand::zeros(DType::f32, {kCount});
    for (int64_t i = 0; i < kCount; ++i) {
      std::memcpy(grad.tensor().as<float>() + i, &nan, sizeof nan);
    }
    cpu().adamw(s.weight, {}, s.m, s.v, grad, kGo, options_at(2));
    for (const Operand& result : {s.weight, s.m, s.v}) {
      const Values values = result.values();
      EXPECT_EQ(std::count_if(values.begin(), values.end(), [](double x) { return std::isnan(x); }),
                kCount)
          << fmt::format("{:x}", nan);
    }
  }
}

TEST(AdamW, ThreadsDoNotMatter) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const Operand grad = Operand::random(type, {50000}, 3);
    expect_same_for_all_threads([&](Backend& backend) {
      State s(type, 50000, false, type);
      for (int64_t step = 1; step <= 3; ++step) {
        backend.adamw(s.weight, {}, s.m, s.v, grad, kGo, options_at(step));
      }
      return std::vector<Operand>{s.weight, s.m, s.v};
    });
  }
}

TEST(AdamW, RefusesMastersThatDoNotFit) {
  const auto refuses = [](DType type, Tensor master) {
    State s(type, 8, false);
    EXPECT_ANY_THROW(cpu().adamw(s.weight, master, s.m, s.v, Operand::zeros(DType::f32, {8}), kGo,
                                 options_at(1)));
  };
  const Operand f32 = Operand::zeros(DType::f32, {8}), u16 = Operand::zeros(DType::u16, {8});
  refuses(DType::f16, {});
  refuses(DType::f16, u16);
  refuses(DType::bf16, f32);
  refuses(DType::f32, f32);  // which are their own
}

// Stretches of odd sizes, decayed or not, equal the same calls one by one, bit for bit; so does the
// stochastic rounding of pure bf16, which follows the global index.
TEST(AdamW, ManyStretchesInOnePass) {
  const int64_t sizes[] = {5, 8192, 1, 20000, 64, 3001};
  for (const bool pure : {false, true}) {
    const DType type = DType::bf16, moments = pure ? DType::bf16 : DType::f32;
    std::vector<State> together, apart;
    std::vector<Operand> grads;
    std::vector<AdamWSegment> segments;
    uint64_t index = (uint64_t{1} << 32) - 9000;  // crosses a multiple of 2^32
    for (const int64_t n : sizes) {
      together.emplace_back(type, n, !pure, moments);
      apart.emplace_back(type, n, !pure, moments);
      grads.push_back(Operand::random(pure ? type : DType::f32, {n}, static_cast<uint64_t>(n)));
    }
    for (int64_t step = 1; step <= 3; ++step) {
      segments.clear();
      uint64_t at = index;
      AdamWOptions options = options_at(step);
      for (size_t i = 0; i < grads.size(); ++i) {
        State& s = together[i];
        const bool decay = i % 2 == 0;
        segments.push_back(
            {s.weight, pure ? Tensor() : s.master.tensor(), s.m, s.v, grads[i], decay, at});
        AdamWOptions own = options;
        own.weight_decay = decay ? options.weight_decay : 0.0f;
        own.first_index = at;
        State& a = apart[i];
        cpu().adamw(a.weight, pure ? Tensor() : a.master.tensor(), a.m, a.v, grads[i], kGo, own);
        at += static_cast<uint64_t>(sizes[i]);
      }
      cpu().adamw(segments, kGo, options);
    }
    for (size_t i = 0; i < grads.size(); ++i) {
      EXPECT_TRUE(together[i].weight.same_bits(apart[i].weight)) << i;
      EXPECT_TRUE(together[i].m.same_bits(apart[i].m)) << i;
      EXPECT_TRUE(together[i].v.same_bits(apart[i].v)) << i;
      EXPECT_TRUE(together[i].weight.guards_intact()) << i;
    }
  }
}

}  // namespace
}  // namespace stretto::test
