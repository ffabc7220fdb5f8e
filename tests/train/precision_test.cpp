#include <gtest/gtest.h>

#include <cmath>

#include "model/host_values.h"
#include "train/training.h"

namespace stretto {
namespace {

TEST(Precision, EveryModeFollowsFp32) {
  Config config = tiny_config();
  config.train.steps = 10;
  const auto reference = losses(config);
  for (const Precision p : {Precision::amp_bf16, Precision::bf16, Precision::amp_fp16}) {
    config.precision = p;
    const auto narrow = losses(config);
    for (size_t i = 0; i < narrow.size(); ++i) {
      // Rounding of activations to 8 (bf16) or 11 (fp16) bits moves a mean loss by far less.
      EXPECT_NEAR(narrow[i], reference[i], 0.02 * reference[i]) << name_of(p) << " step " << i;
    }
  }
}

// 8-bit operands keep 3 (e4m3) or 2 (e5m2) bits of fraction: the run still follows, but not
// exactly. On a CPU, which emulates them, losses stray by 3e-4 and the gradient's norm by 7e-3 at
// most; a GPU rounds the same operands the same way. Ten steps move the loss by less than 1 %, so
// the norms are what shows a gradient that is wrong.
TEST(Precision, EightBitProductsAreEmulated) {
  Config config = tiny_config();
  config.train.steps = 10;
  config.precision = Precision::amp_bf16;
  const std::vector<StepRecord> wide = train(config);
  config.precision = Precision::amp_fp8;
  const std::vector<StepRecord> narrow = train(config);
  ASSERT_EQ(narrow.size(), wide.size());
  for (size_t i = 0; i < narrow.size(); ++i) {
    EXPECT_NE(narrow[i].loss, wide[i].loss) << "step " << i;
    EXPECT_NEAR(narrow[i].loss / wide[i].loss, 1, 1e-3) << "step " << i;
    EXPECT_NEAR(narrow[i].grad_norm / wide[i].grad_norm, 1, 0.02) << "step " << i;
  }
}

// Logits of an 8-bit model are products of 16-bit operands.
TEST(Precision, TheHeadKeepsItsBits) {
  Config config = tiny_config();
  config.precision = Precision::amp_fp8;
  run_thread_ranks(1, [&](Comm& world) {
    Trainer trainer(config, world);
    trainer.initialise();
    Gpt& gpt = trainer.gpt();
    const MicroBatch mb{0, 0, config.micro_batch};
    const std::vector<int32_t> tokens(static_cast<size_t>(config.micro_batch * config.seq_len), 5);
    gpt.begin_step(1, 1);
    gpt.set_batch(0, mb, tokens.data(), tokens.data());
    gpt.forward(0, mb, false);
    const auto values = [&](ConstTensor t) { return host_values(trainer.backend(), t); };
    const Tensor logits = gpt.memory().at("loss.logits");
    const std::vector<float> got = values(logits), norm = values(gpt.memory().at("head.0.norm")),
                             table = values(gpt.memory().at("weights"));  // which it begins with
    const auto C = static_cast<size_t>(config.model.hidden);
    const auto width = static_cast<size_t>(logits.last());
    ASSERT_EQ(static_cast<size_t>(logits.rows()), tokens.size()) << "one chunk of rows";
    for (size_t row = 0; row < tokens.size(); ++row) {
      for (size_t word = 0; word < static_cast<size_t>(config.model.vocab); ++word) {
        double sum = 0, size = 0;
        for (size_t c = 0; c < C; ++c) {
          const double product =
              static_cast<double>(norm[row * C + c]) * static_cast<double>(table[word * C + c]);
          sum += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(static_cast<double>(got[row * width + word]), sum,
                    0x1p-8 * std::abs(sum) + 1e-5 * size)
            << row << " " << word;
      }
    }
  });
}

TEST(Precision, AnOverflowedStepChangesNothing) {
  Config config = tiny_config();
  config.precision = Precision::amp_fp16;
  config.train.loss_scale.initial = 1e30;  // the first steps must overflow
  config.train.loss_scale.hysteresis = 1;
  config.train.steps = 4;
  config.train.max_skipped = 100;
  run_thread_ranks(1, [&](Comm& world) {
    Trainer trainer(config, world);
    trainer.initialise();
    const auto all = [&] {
      std::vector<std::vector<float>> values;
      for (const char* name : {"weights", "master", "m", "v"}) {
        values.push_back(host_values(trainer.backend(), trainer.gpt().memory().at(name)));
      }
      return values;
    };
    const auto before = all();
    const StepRecord record = trainer.step();
    EXPECT_TRUE(record.skipped);
    EXPECT_EQ(record.updates, 0);
    EXPECT_EQ(record.skipped_total, 1);
    EXPECT_EQ(trainer.scaler().scale(), 5e29);
    EXPECT_TRUE(all() == before);
    EXPECT_EQ(trainer.state().consumed_samples, config.global_batch);
  });
}

// The steps of a run that ends as diverged, and the advice it ends with.
struct DivergedRun {
  std::vector<StepRecord> steps;
  std::string advice;
};
DivergedRun diverged_run(const Config& config) {
  DivergedRun run;
  try {
    run_thread_ranks(1, [&](Comm& world) {
      RunOptions options;
      options.print = false;
      options.on_step = [&](const StepRecord& record) { run.steps.push_back(record); };
      run_training(config, world, options);
    });
    ADD_FAILURE() << "the run ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::diverged);
    run.advice = error.hint();
  }
  return run;
}

TEST(Precision, TooManySkippedStepsStopTheRun) {
  Config config = tiny_config();
  config.precision = Precision::amp_fp16;
  config.train.loss_scale = {0x1p60, 0x1p20, 1000, 1};
  config.train.steps = 50;
  for (const int64_t most : {1, 3}) {
    config.train.max_skipped = most;
    const DivergedRun run = diverged_run(config);
    EXPECT_EQ(std::ssize(run.steps), most);
    EXPECT_NE(run.advice.find("train.loss_scale.initial"), std::string::npos) << run.advice;
  }
}

// A scale that doubles after each good step overflows again and again, and the run goes on.
TEST(Precision, SkippedStepsCountInARow) {
  Config config = tiny_config();
  config.precision = Precision::amp_fp16;
  config.train.loss_scale = {0x1p15, 1, 1, 1};
  config.train.steps = 40;
  config.train.max_skipped = 3;
  const std::vector<StepRecord> steps = train(config);
  ASSERT_EQ(steps.size(), 40u);
  EXPECT_GT(steps.back().skipped_total, config.train.max_skipped);
  EXPECT_GT(steps.back().updates, config.train.max_skipped);
}

// After one step Adam's first moment is the clipped gradient times 1 - beta1.
TEST(Precision, ClippingDoesNotDependOnTheLossScale) {
  Config config = tiny_config();
  for (const Precision p : {Precision::fp32, Precision::amp_bf16, Precision::amp_fp16}) {
    for (const double scale : {1.0, 64.0, 4096.0}) {
      for (const double clip : {0.0, 0.01, 1e6}) {
        SCOPED_TRACE(fmt::format("{} scale {} clip {}", name_of(p), scale, clip));
        config.precision = p;
        config.train.loss_scale.initial = scale;
        config.train.clip = clip;
        run_thread_ranks(1, [&](Comm& world) {
          Trainer trainer(config, world);
          trainer.initialise();
          const StepRecord record = trainer.step();
          ASSERT_FALSE(record.skipped);
          ASSERT_GT(record.grad_norm, 0.1);
          double squares = 0;
          for (const float m : host_values(trainer.backend(), trainer.optimizer().state("m"))) {
            squares += static_cast<double>(m) * static_cast<double>(m);
          }
          const double clipped = clip == 0.01 ? clip : record.grad_norm;
          EXPECT_NEAR(std::sqrt(squares) / (1 - config.train.beta1) / clipped, 1, 1e-4);
        });
      }
    }
  }
}

// No step found a scale: no weight has changed, and the run did not end well.
TEST(Precision, ARunOfSkippedStepsAloneDoesNotEndWell) {
  Config config = tiny_config();
  config.precision = Precision::amp_fp16;
  config.train.steps = 4;
  const auto code = [&](double scale) {
    config.train.loss_scale.initial = scale;
    ExitCode out = ExitCode::ok;
    run_thread_ranks(1, [&](Comm& world) { out = run_training(config, world, {}).code; });
    return out;
  };
  EXPECT_EQ(code(1e30), ExitCode::diverged);
  EXPECT_EQ(code(1024), ExitCode::ok);
}

TEST(Precision, RunsAreBitEqualAndThreadsDoNotMatter) {
  Config config = tiny_config();
  for (const Precision p : {Precision::fp32, Precision::amp_bf16, Precision::bf16}) {
    config.precision = p;
    config.threads = 1;
    const auto first = losses(config);
    EXPECT_EQ(losses(config), first);
    for (const int64_t threads : {2, 4}) {
      config.threads = threads;
      EXPECT_EQ(losses(config), first) << name_of(p) << ", threads " << threads;
    }
  }
}

}  // namespace
}  // namespace stretto
