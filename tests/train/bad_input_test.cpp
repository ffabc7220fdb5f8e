// What users get wrong: a clear error with the fix and the right code, and nothing half-written.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "config/reader.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "training.h"

namespace stretto {
namespace {

Config with_data(const std::string& path) {
  Config config = tiny_config();
  config.train.steps = 1;
  config.train.warmup = 0;
  config.data.path = path;
  return config;
}

TEST(BadInput, TokensBeyondTheVocabulary) {
  const TempDir dir;
  const Config config = with_data(dir.write("text.txt", std::string(2000, 'z')));  // 122 > 61
  EXPECT_ERROR(train(config), ExitCode::bad_data, "id 122, outside the vocabulary of 61");
}

// One token in 300,000 that a run of one step would hardly meet, in either file.
TEST(BadInput, ARareTokenBeyondTheVocabularyIsFoundBeforeTheFirstStep) {
  const TempDir dir;
  const std::string good(300'000, '\7');
  std::string odd = good;
  odd[123'456] = 'z';
  Config config = with_data(dir.write("odd.txt", odd));
  EXPECT_ERROR(train(config), ExitCode::bad_data, "odd.txt: token 123456 has id 122");
  config.parallel.dp = 2;
  EXPECT_ERROR(train(config), ExitCode::bad_data, "odd.txt: token 123456 has id 122");
  config.data.eval_path = std::exchange(config.data.path, dir.write("good.txt", good));
  EXPECT_ERROR(train(config), ExitCode::bad_data, "odd.txt: token 123456 has id 122");
}

TEST(BadInput, EmptyAndTruncatedFiles) {
  const TempDir dir;
  EXPECT_ERROR(train(with_data(dir.write("empty.txt", ""))), ExitCode::bad_data, "empty.txt");
  EXPECT_ERROR(train(with_data(dir.write("short.txt", "abc"))), ExitCode::bad_data, "too few");
  EXPECT_ERROR(train(with_data(dir.write("odd.u16", "abc"))), ExitCode::bad_data, "odd.u16");
  EXPECT_ERROR(train(with_data(dir.write("cut.bin", std::string(100, '\0')))), ExitCode::bad_data,
               "cut.bin");
  EXPECT_ERROR(train(with_data(dir / "none.txt")), ExitCode::no_input, "none.txt");
}

TEST(BadInput, SequenceLongerThanPositions) {
  Config config = tiny_config();
  config.seq_len = config.model.positions + 1;
  EXPECT_ERROR(train(config), ExitCode::bad_config, "seq_len");
}

// `auto` on machines with unequal memory: every rank must learn of it by itself, not from another
// one's end.
TEST(BadInput, RanksThatChoseAnotherMicroBatch) {
  Config config = tiny_config();
  config.parallel.dp = 2;
  std::vector<ExitCode> codes(2, ExitCode::ok);
  const auto each_its_own = [&](Comm& world) {
    Config own = config;
    own.micro_batch = 1 + world.rank();
    RunOptions options;
    options.print = false;
    try {
      run_training(own, world, options);
    } catch (const Error& error) {
      codes[static_cast<size_t>(world.rank())] = error.code();
      throw;
    }
  };
  EXPECT_ERROR(run_thread_ranks(2, each_its_own), ExitCode::bad_config,
               "micro_batch is 2 on rank 1");
  EXPECT_EQ(codes, std::vector<ExitCode>(2, ExitCode::bad_config));
}

TEST(BadInput, ZeroAndNegativeSizes) {
  for (const char* key :
       {"model.layers", "model.hidden", "model.heads", "model.vocab", "model.positions", "seq_len",
        "micro_batch", "global_batch", "train.steps", "threads"}) {
    for (const char* value : {"-1", "-2", "0"}) {
      const std::string word = std::string(key) + "=" + value;
      // Zero means "choose for me" for these.
      const bool automatic =
          value[0] == '0' && (std::string(key) == "seq_len" || std::string(key) == "threads");
      if (automatic) continue;
      EXPECT_ERROR(require_valid(load_config({"tiny", word}).config), ExitCode::bad_config, key);
    }
  }
  for (const char* word : {"model.hidden=1", "model.ffn=1"}) {
    EXPECT_ERROR(require_valid(load_config({"tiny", word}).config), ExitCode::bad_config,
                 "below the least value");
  }
}

TEST(BadInput, ARunThatEndsInNanDoesNotEndWell) {
  const TempDir dir;
  Config config = tiny_config();
  config.train.steps = 12;
  config.train.warmup = 0;
  config.train.lr = 1000;
  config.train.schedule = LrSchedule::constant;
  config.train.clip = 0;
  config.output = dir / "run";
  config.checkpoint.every = 1;
  EXPECT_ERROR(train(config), ExitCode::diverged, "NaN or infinite gradients");
  for (const char* step : {"step-11", "step-12"}) {  // several steps were without finite gradients
    EXPECT_FALSE(std::filesystem::exists(dir / "run/checkpoints/" + step)) << step;
  }
  EXPECT_FALSE(std::filesystem::is_empty(dir / "run/checkpoints"));
}

TEST(BadInput, UnwritableOutput) {
  const TempDir dir;
  Config config = tiny_config();
  config.train.steps = 1;
  config.train.warmup = 0;
  config.output = dir.write("file", "not a directory") + "/run";
  EXPECT_ERROR(train(config), ExitCode::cannot_create, dir / "file");
  EXPECT_EQ(std::filesystem::file_size(dir / "file"), 15U);
}

}  // namespace
}  // namespace stretto
