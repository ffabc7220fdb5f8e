// Every topology trains the same model: the loss curve of one process within 1e-5, and bit-equal
// where the order of sums is ours.
#include <gtest/gtest.h>

#include <functional>

#include "config/rules.h"
#include "train/rank_plan.h"
#include "train/training.h"

namespace stretto {
namespace {

using Change = std::function<void(Config&)>;

struct Case {
  const char* name;
  Change change;
};

Config base() {
  Config config = tiny_config();
  config.train.steps = 20;
  config.train.audit_every = 5;  // replicas stay equal, in every topology
  return config;
}

const std::vector<double>& single_process() {
  static const std::vector<double> curve = losses(base());
  return curve;
}

class Topology : public testing::TestWithParam<Case> {};

TEST_P(Topology, FollowsOneProcess) {
  Config config = base();
  GetParam().change(config);
  const auto curve = losses(config);
  ASSERT_EQ(curve.size(), single_process().size());
  for (size_t i = 0; i < curve.size(); ++i) {
    EXPECT_NEAR(curve[i], single_process()[i], 1e-5 * single_process()[i]) << "step " << i + 1;
  }
}

Change with(int dp, int tp, int pp, int zero = 0) {
  return [=](Config& c) {
    c.parallel.dp = dp;
    c.parallel.tp = tp;
    c.parallel.pp = pp;
    c.parallel.zero = zero;
  };
}

Change both(Change a, Change b) {
  return [=](Config& c) {
    a(c);
    b(c);
  };
}

const Change kInterleaved = [](Config& c) {
  c.parallel.schedule = PipelineSchedule::interleaved;
  c.parallel.interleave = 2;
};
const Change kZeroBubble = [](Config& c) { c.parallel.schedule = PipelineSchedule::zero_bubble; };
const Change kEager = [](Config& c) { c.parallel.schedule = PipelineSchedule::eager_one_f_one_b; };
const Change kGpipe = [](Config& c) { c.parallel.schedule = PipelineSchedule::gpipe; };
const Change kNoSequence = [](Config& c) { c.parallel.sequence_parallel = false; };
const Change kUneven = [](Config& c) { c.parallel.partition = "[1,3]"; };
const Change kRagged = [](Config& c) { c.micro_batch = 3; };
const Change kGroups = [](Config& c) { c.parallel.zero_group = 2; };
const Change kFull = [](Config& c) { c.activation_checkpointing = Checkpointing::full; };
const Change kGelu = [](Config& c) { c.activation_checkpointing = Checkpointing::gelu; };
const Change kSelective = [](Config& c) { c.activation_checkpointing = Checkpointing::selective; };

INSTANTIATE_TEST_SUITE_P(
    Grid, Topology,
    testing::Values(
        Case{"dp4", with(4, 1, 1)}, Case{"tp4", with(1, 4, 1)}, Case{"pp4", with(1, 1, 4)},
        Case{"dp2tp2", with(2, 2, 1)}, Case{"dp2pp2", with(2, 1, 2)}, Case{"tp2pp2", with(1, 2, 2)},
        Case{"zero1", with(4, 1, 1, 1)}, Case{"zero2", with(4, 1, 1, 2)},
        Case{"zero3", with(4, 1, 1, 3)}, Case{"zero3tp2", with(2, 2, 1, 3)},
        Case{"zero1pp2", with(2, 1, 2, 1)}, Case{"interleaved", both(with(1, 1, 2), kInterleaved)},
        Case{"zerobubble", both(with(1, 1, 4), kZeroBubble)},
        Case{"uneven", both(with(1, 1, 2), kUneven)},
        Case{"uneventp2", both(with(1, 2, 2), kUneven)}, Case{"gpipe", both(with(1, 1, 4), kGpipe)},
        Case{"eager", both(with(1, 1, 4), kEager)},
        Case{"nosequence", both(with(1, 4, 1), kNoSequence)},
        Case{"full", both(with(1, 2, 2), kFull)},
        Case{"selective", both(with(2, 2, 1), kSelective)},
        Case{"geluzerobubble", both(with(1, 1, 4), both(kGelu, kZeroBubble))},
        Case{"selectivezerobubble", both(with(1, 2, 2), both(kSelective, kZeroBubble))},
        Case{"fullzerobubble", both(with(1, 1, 2), both(kFull, kZeroBubble))},
        Case{"ragged", both(with(2, 2, 1), kRagged)},
        Case{"raggedzero3", both(with(4, 1, 1, 3), kRagged)},
        Case{"raggedpp4", both(with(1, 1, 4), kRagged)},
        Case{"hybrid1", both(with(4, 1, 1, 1), kGroups)},
        Case{"hybrid2", both(with(4, 1, 1, 2), kGroups)},
        Case{"hybrid3", both(with(4, 1, 1, 3), kGroups)},
        Case{"hybrid3tp2", both(with(4, 2, 1, 3), kGroups)},
        Case{"hybrid1pp2", both(with(4, 1, 2, 1), kGroups)}, Case{"dp2tp2pp2", with(2, 2, 2)}),
    [](const auto& one) { return one.param.name; });

// In bf16 alone, too: a weight's random rounding does not depend on who owns it.
TEST(BitEqual, ZeroOneEqualsUnsharded) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Config a = base(), b = base();
    with(4, 1, 1)(a);
    with(4, 1, 1, 1)(b);
    a.precision = b.precision = precision;
    EXPECT_EQ(losses(a), losses(b)) << name_of(precision);
  }
}

const Change kRounded = [](Config& c) { c.parallel.reduce_dtype = DType::bf16; };

// 8 bits of each gradient are left on the way: near one process, and not the same as unrounded.
TEST(RoundedGradients, FollowOneProcess) {
  for (const Change& change :
       {with(4, 1, 1), with(4, 1, 1, 2), both(with(4, 1, 1, 3), kGroups), with(2, 2, 1, 1)}) {
    Config config = base();
    change(config);
    const auto plain = losses(config);
    kRounded(config);
    const auto rounded = losses(config);
    EXPECT_NE(rounded, plain);
    for (size_t i = 0; i < rounded.size(); ++i) {
      EXPECT_NEAR(rounded[i], single_process()[i], 1e-3 * single_process()[i]) << "step " << i + 1;
    }
  }
}

// Gradients kept in bf16: one micro-batch and several, one rank and several, near those in f32.
TEST(RoundedGradients, KeptInHalfTheMemory) {
  Config config = base();
  config.precision = Precision::amp_bf16;
  const auto exact = losses(config);
  config.gradient_dtype = DType::bf16;
  for (const Change& change : {with(1, 1, 1), with(4, 1, 1), with(2, 1, 1, 3), with(2, 2, 1, 1)}) {
    change(config);
    const auto rounded = losses(config);
    EXPECT_NE(rounded, exact);
    for (size_t i = 0; i < rounded.size(); ++i) {
      EXPECT_NEAR(rounded[i], exact[i], 1e-3 * exact[i]) << "step " << i + 1;
    }
  }
  for (const TensorSpec& t : memory_plan(rank_shape(config, {}))) {
    if (t.term == MemoryTerm::gradients) {
      EXPECT_EQ(t.type, DType::bf16) << t.label;
    }
  }
}

TEST(BitEqual, ZeroOneWithRoundedGradients) {
  Config a = base(), b = base();
  both(with(4, 1, 1), kRounded)(a);
  both(with(4, 1, 1, 1), kRounded)(b);
  EXPECT_EQ(losses(a), losses(b));
}

TEST(BitEqual, AllZeroStagesInDeterministicOrder) {
  Config config = base();
  config.deterministic = true;
  std::vector<double> first;
  for (const int zero : {0, 1, 2, 3}) {
    with(4, 1, 1, zero)(config);
    if (zero == 0) first = losses(config);
    EXPECT_EQ(losses(config), first) << "zero " << zero;
  }
}

TEST(BitEqual, DeterministicOrderDoesNotDependOnDp) {
  Config config = base();
  config.deterministic = true;
  const auto one = losses(config);
  for (const int dp : {2, 4}) {
    with(dp, 1, 1)(config);
    EXPECT_EQ(losses(config), one) << "dp " << dp;
  }
}

// Layers take turns in two buffers for their gradients: a schedule follows, or it is refused.
TEST(Deterministic, FollowsOneProcessInEveryScheduleThatIsAllowed) {
  for (const bool tied : {true, false}) {
    Config one = base();
    one.model.layers = 8;
    one.model.tied_embedding = tied;
    one.train.steps = 4;
    const auto expected = losses(one);
    int followed = 0;
    for (const Change& schedule :
         {Change([](Config&) {}), kInterleaved, kEager, kGpipe, kZeroBubble}) {
      Config config = one;
      both(with(1, 1, 2), schedule)(config);
      config.deterministic = true;
      if (!is_valid(config)) continue;
      ++followed;
      const auto curve = losses(config);
      for (size_t i = 0; i < curve.size(); ++i) {
        EXPECT_NEAR(curve[i], expected[i], 1e-5 * expected[i])
            << name_of(config.parallel.schedule) << ", step " << i + 1 << (tied ? "" : ", untied");
      }
    }
    EXPECT_GE(followed, 3);
  }
}

// With 8-bit operands, too: every pass over a layer rounds them, and the same ones.
TEST(BitEqual, SchedulesEqualOneForwardOneBackward) {
  for (const Precision precision : {Precision::fp32, Precision::amp_fp8}) {
    Config config = base();
    config.precision = precision;
    with(1, 1, 4)(config);
    const auto plain = losses(config);
    for (const Change& schedule : {kGpipe, kEager, kZeroBubble}) {
      schedule(config);
      EXPECT_EQ(losses(config), plain)
          << name_of(precision) << " " << name_of(config.parallel.schedule);
    }
  }
}

TEST(BitEqual, CheckpointingChangesNothing) {
  for (const Precision precision : {Precision::fp32, Precision::amp_fp8}) {
    // A GPU applies GELU before it rounds, and recomputation starts from what is rounded.
    if (precision != Precision::fp32 && test_device() != Device::cpu) continue;
    Config config = base();
    config.precision = precision;
    const auto none = losses(config);
    for (const Change& mode : {kGelu, kSelective, kFull}) {
      mode(config);
      EXPECT_EQ(losses(config), none)
          << name_of(precision) << " " << name_of(config.activation_checkpointing);
    }
  }
}

// The rules refuse a batch that leaves a rank without a sample, but the engine takes it: nothing of
// an earlier micro-batch may stay in the gradients of the one that has no rows.
TEST(IdleRank, AddsNothing) {
  if (test_device() != Device::cpu) GTEST_SKIP() << "a GPU has not been tried without rows";
  for (const bool tied : {true, false}) {
    Config one = base();
    one.micro_batch = 1;
    one.train.steps = 6;
    one.model.tied_embedding = tied;
    const auto expected = losses(one);
    struct Cut {
      int dp, tp, pp, zero;
      bool deterministic;
    };
    for (const Cut& cut : {Cut{3, 1, 1, 0, false}, Cut{3, 1, 1, 0, true}, Cut{3, 1, 1, 2, false},
                           Cut{3, 2, 1, 3, false}, Cut{3, 1, 2, 0, false}}) {
      Config config = one;
      with(cut.dp, cut.tp, cut.pp, cut.zero)(config);
      config.deterministic = cut.deterministic;
      const auto curve = losses_of(train_unchecked(config));
      ASSERT_EQ(curve.size(), expected.size());
      for (size_t i = 0; i < curve.size(); ++i) {
        EXPECT_NEAR(curve[i], expected[i], 1e-5 * expected[i])
            << fmt::format("step {}: tp {} pp {} zero {}{}{}", i + 1, cut.tp, cut.pp, cut.zero,
                           cut.deterministic ? " deterministic" : "", tied ? "" : ", untied");
      }
    }
  }
}

// Padding is no parameter: it differs from layout to layout, and all of it is zero.
TEST(GradientZeros, AreThoseOfParameters) {
  Config config = base();
  config.train.steps = 2;
  config.model.vocab = 100;  // padded
  const auto zeros = [](const Config& c) { return train(c).back().zeros; };
  const double one = zeros(config);
  EXPECT_GE(one, 0);
  EXPECT_LT(one, static_cast<double>(config.model.layers * config.model.hidden +
                                     10));  // the keys' biases
  for (const Change& change : {with(2, 1, 1), with(4, 1, 1, 1), with(2, 1, 1, 3), with(1, 1, 2)}) {
    Config cut = config;
    change(cut);
    EXPECT_EQ(zeros(cut), one);
  }
  with(1, 2, 1)(config);  // the keys' biases are sums there, zero but for their rounding
  EXPECT_GE(zeros(config), 0);
  EXPECT_LE(zeros(config), one);
}

}  // namespace
}  // namespace stretto
