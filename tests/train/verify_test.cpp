#include "train/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "train/training.h"

namespace stretto {
namespace {

bool has(const std::vector<VerifyCase>& cases, const std::string& name) {
  return std::any_of(cases.begin(), cases.end(), [&](const auto& c) { return c.name == name; });
}

bool has_resume(const std::vector<VerifyCase>& cases, const std::string& saved_on) {
  return std::any_of(cases.begin(), cases.end(),
                     [&](const auto& c) { return c.saved_by.name == saved_on; });
}

TEST(Verify, GridHoldsWhatFitsTheModel) {
  Config config = tiny_config();
  EXPECT_TRUE(has(verify_grid(config, 4, 3), "tp4"));
  EXPECT_TRUE(has(verify_grid(config, 4, 3), "pp4, zero_bubble"));
  EXPECT_TRUE(has(verify_grid(config, 8, 3), "dp2 x tp2 x pp2"));
  EXPECT_TRUE(has(verify_grid(config, 4, 3), "tp4, resumed on dp2 x tp2, ZeRO-3"));
  EXPECT_FALSE(has(verify_grid(config, 4, 1), "tp4, resumed on pp4"));  // nothing to cut in two
  EXPECT_FALSE(has(verify_grid(config, 2, 3), "tp4"));
  config.train.warmup = 100;  // longer than the few steps of a proof
  EXPECT_TRUE(has(verify_grid(config, 4, 1), "tp4"));
  config.train.schedule = LrSchedule::wsd;
  config.train.decay = 50;
  EXPECT_TRUE(has(verify_grid(config, 4, 3), "tp4"));
  config.output = "runs/a";  // what a run writes is no part of a proof
  config.log.tensorboard = true;
  config.trace = 2;
  config.checkpoint.every = 2;
  config.checkpoint.keep_every = 4;
  EXPECT_TRUE(has(verify_grid(config, 4, 3), "tp4"));
  config.train.beta1 = 2;
  EXPECT_THROW(verify_grid(config, 4, 3), Error);
  config = tiny_config();
  config.model.heads = 2;
  config.model.layers = 2;
  const auto small = verify_grid(config, 4, 3);
  EXPECT_FALSE(has(small, "tp4"));
  EXPECT_FALSE(has(small, "pp4"));
  EXPECT_TRUE(has(small, "tp2 x pp2"));
}

TEST(Verify, SaysWhatDoesNotFitAndWhy) {
  Config config = tiny_config();
  std::vector<LeftOut> left_out;
  verify_grid(config, 2, 3, &left_out);
  EXPECT_TRUE(left_out.empty()) << left_out[0].name << ": " << left_out[0].why;
  config.global_batch = 3;
  config.micro_batch = 1;
  const auto cases = verify_grid(config, 2, 3, &left_out);
  EXPECT_FALSE(has(cases, "dp2"));
  ASSERT_FALSE(left_out.empty());
  EXPECT_EQ(left_out[0].name, "dp2");
  EXPECT_EQ(left_out[0].why, "global_batch is not a multiple of parallel.dp: 2");
  for (const LeftOut& one : left_out) EXPECT_EQ(one.name.find("dp4"), std::string::npos);
}

// Three sequences a rank in micro-batches of two would be others than one process has.
TEST(Verify, AFixedOrderNeedsTheSameMicroBatches) {
  Config config = tiny_config();
  for (const int64_t batch : {10, 12, 20, 28}) {
    config.global_batch = batch;
    for (const int64_t micro_batch : {2, 3, 4, 5}) {
      config.micro_batch = micro_batch;
      for (const VerifyCase& one : verify_grid(config, 4, 1)) {
        if (!one.config.deterministic) continue;
        EXPECT_EQ(batch / one.config.parallel.dp % one.config.micro_batch, 0) << one.name;
      }
    }
  }
  config.global_batch = 12;
  config.micro_batch = 2;
  std::vector<VerifyCase> cases = verify_grid(config, 4, 2);
  std::erase_if(cases, [](const VerifyCase& one) {
    return !one.config.deterministic || !one.saved_by.name.empty();
  });
  const auto rows = run_verify(cases);
  EXPECT_GT(rows.size(), 4u);
  for (const VerifyRow& row : rows) EXPECT_TRUE(row.passed()) << row.name;
}

TEST(Verify, TwoRanksTrainTheSameModel) {
  std::vector<VerifyCase> cases = verify_grid(tiny_config(), 2, 4);
  std::erase_if(cases, [](const VerifyCase& one) { return !one.saved_by.name.empty(); });
  const auto rows = run_verify(cases);
  EXPECT_GT(rows.size(), 12u);
  for (const VerifyRow& row : rows) {
    EXPECT_TRUE(row.passed()) << row.name << ": loss " << row.max_loss_difference() << ", norm "
                              << row.max_norm_difference() << " " << row.error;
    EXPECT_EQ(row.loss_differences.size(), 4u);
  }
}

// Six topologies, each with each: the same trajectory. With itself: the same bits.
TEST(Verify, AnyTopologyGoesOnWithWhatAnyOtherSaved) {
  const std::vector<VerifyCase> grid = verify_grid(tiny_config(), 4, 4);
  std::vector<VerifyCase> cases = grid;
  std::erase_if(cases, [&](const VerifyCase& one) {
    return one.saved_by.name.empty() && !has_resume(grid, one.name) && one.name != "dp2 x pp2";
  });
  int pairs = 0, alike = 0;
  for (const VerifyRow& row : run_verify(cases)) {
    EXPECT_TRUE(row.passed()) << row.name << ": loss " << row.max_loss_difference() << " "
                              << row.error;
    if (row.name.find(", resumed on ") != std::string::npos) ++pairs;
    if (row.name.find(", saved and resumed") != std::string::npos) alike += row.bit_equal ? 1 : 0;
  }
  EXPECT_EQ(pairs, 30);
  EXPECT_EQ(alike, 6);
}

TEST(Verify, AnotherSaveIsFound) {
  std::vector<VerifyCase> cases = verify_grid(tiny_config(), 1, 4);
  std::erase_if(cases, [](const VerifyCase& one) {
    return !one.against.empty() && one.saved_by.name.empty();
  });
  ASSERT_EQ(cases.back().name, "one process, saved and resumed");
  EXPECT_TRUE(run_verify(cases).back().passed());
  cases.back().saved_by.config.train.lr *= 1.001;
  const auto rows = run_verify(cases);
  EXPECT_FALSE(rows.back().passed());
  EXPECT_EQ(rows.back().loss_differences[0], 0);  // one step before the other rate takes effect
  EXPECT_GT(rows.back().loss_differences[2], 0);
}

TEST(Verify, TheFirstStepHasLimitsOfItsOwn) {
  const auto passes = [](std::vector<double> loss, std::vector<double> norm) {
    VerifyRow row;
    row.tolerance = {{1e-3, 5e-3}, "", Limits{1e-6, 1e-3}};
    row.loss_differences = std::move(loss);
    row.norm_differences = std::move(norm);
    return row.passed();
  };
  EXPECT_TRUE(passes({1e-7, 9e-4}, {9e-4, 4e-3}));
  EXPECT_FALSE(passes({1e-5, 9e-4}, {9e-4, 4e-3}));
  EXPECT_FALSE(passes({1e-7, 9e-4}, {2e-3, 4e-3}));
  EXPECT_FALSE(passes({1e-7, 2e-3}, {9e-4, 4e-3}));
  EXPECT_FALSE(passes({1e-7, 9e-4}, {9e-4, 6e-3}));
}

// Later steps have a wider tolerance, because weights multiply small differences. It would be too
// wide for the first step.
TEST(Verify, RoundedSumsAreCloserInTheFirstStep) {
  for (const Precision precision : {Precision::amp_bf16, Precision::amp_fp8, Precision::bf16}) {
    Config config = tiny_config();
    config.precision = precision;
    for (const VerifyCase& one : verify_grid(config, 4, 4)) {
      if (one.against.empty() || one.tolerance.exact()) continue;
      if (one.name.find("recomputation") != std::string::npos) continue;  // on GPUs
      ASSERT_TRUE(one.tolerance.first_step) << one.name;
      EXPECT_LE(5 * one.tolerance.first_step->grad_norm, one.tolerance.any_step.grad_norm)
          << one.name;
      if (one.name == "dp2" && precision != Precision::bf16) {
        EXPECT_LE(one.tolerance.first_step->grad_norm, 1e-5);  // gradients in f32
      }
    }
  }
}

// Gradients kept in bf16 are rounded once per sum, so bounds for f32 sums do not apply to them.
TEST(Verify, RoundedGradientsAreNotHeldToTheOrderOfSums) {
  Config config = tiny_config();
  config.precision = Precision::amp_bf16;
  config.gradient_dtype = DType::bf16;
  std::vector<VerifyCase> cases = verify_grid(config, 2, 4);
  std::erase_if(cases, [](const VerifyCase& one) {
    return one.name != "one process" && one.name != "dp2" && one.name != "pp2";
  });
  const auto rows = run_verify(cases);
  ASSERT_EQ(rows.size(), 2u);
  for (const VerifyRow& row : rows) {
    EXPECT_TRUE(row.passed()) << row.name << ": " << row.max_norm_difference() << " " << row.error;
  }
  EXPECT_GT(rows[0].norm_differences[0], 1e-5);
}

// With other micro-batches one process differs from itself as much as topologies do.
TEST(Verify, EightBitsTrainTheSameModel) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    Config config = tiny_config();
    config.precision = Precision::amp_fp8;
    config.seed = seed;
    std::vector<VerifyCase> cases = verify_grid(config, 4, 20);
    std::erase_if(cases, [](const VerifyCase& one) {
      return one.name != "one process" && one.name != "ragged" && one.name != "tp2" &&
             one.name != "dp4, bf16 sums, ZeRO-3";
    });
    const auto rows = run_verify(cases);
    ASSERT_EQ(rows.size(), 3u);
    for (const VerifyRow& row : rows) {
      EXPECT_TRUE(row.passed()) << row.name << ", seed " << seed << ": loss "
                                << row.max_loss_difference() << ", norm "
                                << row.max_norm_difference() << " " << row.error;
    }
  }
}

// Weights that differ in their last bits give other 8-bit products, so the first step shows best
// how close the sums are.
TEST(Verify, SumsInBf16TrainTheSameModelInEightBits) {
  Config config = tiny_config();
  config.precision = Precision::amp_fp8;
  std::vector<VerifyCase> cases = verify_grid(config, 2, 4);
  std::erase_if(cases, [](const VerifyCase& one) {
    return one.name != "one process" && one.name != "dp2, bf16 sums";
  });
  const auto rows = run_verify(cases);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].passed()) << rows[0].max_norm_difference() << " " << rows[0].error;
  EXPECT_GT(rows[0].norm_differences[0], 0);
}

// A scale that is too large skips steps: then the norms are NaN on both sides.
TEST(Verify, StepsThatAreLeftOutAreTheSame) {
  Config config = tiny_config();
  config.precision = Precision::amp_fp16;
  config.train.loss_scale.initial = 1e9;
  std::vector<VerifyCase> cases = verify_grid(config, 1, 4);
  std::erase_if(cases, [](const VerifyCase& one) {
    return one.name != "one process" && one.name != "full recomputation";
  });
  const auto rows = run_verify(cases);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].passed()) << rows[0].error;
}

TEST(Verify, AnotherModelIsFound) {
  auto cases = verify_grid(tiny_config(), 1, 4);
  ASSERT_GE(cases.size(), 3u);
  cases[2].config.train.lr *= 1.001;
  const auto rows = run_verify(cases);
  EXPECT_FALSE(rows[0].passed());
  EXPECT_EQ(rows[0].loss_differences[0], 0);
  EXPECT_GT(rows[0].max_loss_difference(), 0);
}

// The number behind `word` in a case's name; `none` if the name does not have the word.
int64_t in_name(const std::string& name, const std::string& word, int64_t none) {
  const size_t at = name.find(word);
  return at == std::string::npos ? none : std::stoll(name.substr(at + word.size()));
}

// A topology that is named but not run would pass whatever it does.
TEST(Verify, CasesRunWhatTheirNamesSay) {
  size_t seen = 0;
  const auto expect_named = [&](std::string name, const Config& config) {
    const std::string resumed = ", resumed on ";
    if (const size_t at = name.find(resumed); at != std::string::npos) {
      name = name.substr(at + resumed.size());
    }
    EXPECT_EQ(config.parallel.dp, in_name(name, "dp", 1)) << name;
    EXPECT_EQ(config.parallel.tp, in_name(name, "tp", 1)) << name;
    EXPECT_EQ(config.parallel.pp, in_name(name, "pp", 1)) << name;
    EXPECT_EQ(config.parallel.zero, in_name(name, "ZeRO-", 0)) << name;
    EXPECT_EQ(config.parallel.zero_group, in_name(name, "groups of ", 0)) << name;
    EXPECT_EQ(config.deterministic, name.find("fixed order") < name.size()) << name;
    const PipelineSchedule plain = Config{}.parallel.schedule;
    for (const PipelineSchedule schedule :
         {PipelineSchedule::gpipe, PipelineSchedule::eager_one_f_one_b,
          PipelineSchedule::interleaved, PipelineSchedule::zero_bubble}) {
      const bool named = name.ends_with(std::string(", ") + name_of(schedule));
      EXPECT_EQ(config.parallel.schedule == schedule, named || schedule == plain) << name;
    }
    ++seen;
  };
  for (const VerifyCase& one : verify_grid(tiny_config(), 8, 4)) {
    expect_named(one.name, one.config);
    if (!one.saved_by.name.empty()) expect_named(one.saved_by.name, one.saved_by.config);
  }
  EXPECT_GT(seen, 60u);
}

}  // namespace
}  // namespace stretto
