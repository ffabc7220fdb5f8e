// Training on a user's token files; data.format gives the layout where it cannot be recognized.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/tokenizer.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/evaluate.h"
#include "training.h"

namespace stretto {
namespace {

// As nanoGPT leaves it: little-endian uint16, no header, named .bin.
std::string raw_tokens(int count, int vocab) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += {static_cast<char>(i * 7 % vocab), '\0'};
  return bytes;
}

TEST(TrainingData, RawTokensNamedBinNeedTheFormat) {
  const TempDir dir;
  Config config = tiny_config();
  config.train.steps = 2;
  config.data.path = dir.write("train.bin", raw_tokens(2000, 61));
  EXPECT_ERROR(train(config), ExitCode::bad_data, "no llm.c header");
  config.data.format = TokenFormat::u16;
  const std::vector<double> by_format = losses(config);
  config.data.path = dir.write("train.u16", raw_tokens(2000, 61));
  config.data.format = TokenFormat::detect;
  EXPECT_EQ(by_format, losses(config));
}

std::string fix_of(const Config& config) {
  try {
    train(config);
  } catch (const Error& error) {
    return error.hint();
  }
  return "";
}

// Evaluating one on the other would give a number that looks like any other.
TEST(TrainingData, TextIsNotEvaluatedByAModelOfTokens) {
  const TempDir dir;
  Config config = tiny_config();
  config.model.vocab = 300;
  config.train.steps = 2;
  config.train.eval_every = 1;
  const std::string text = dir.write("valid.txt", raw_tokens(1000, 61));
  const std::string tokens = dir.write("train.u16", raw_tokens(2000, 61));
  config.data.path = tokens;
  config.data.eval_path = text;
  const std::string gpt2 = STRETTO_SOURCE_DIR "/tests/goldens/tokenizer/gpt2.json";
  for (const std::string& tokenizer : {std::string(), gpt2, std::string("bytes")}) {
    config.data.tokenizer = tokenizer;
    EXPECT_ERROR(train(config), ExitCode::bad_config, "data.eval_path=" + text + " is text");
    const std::string named = tokenizer.empty() ? "tokenizer.json" : tokenizer;
    EXPECT_EQ(fix_of(config),
              "convert the text to tokens with the other tokenizer: stretto "
              "data prepare " +
                  text + " --tokenizer " + named + " -o NAME, then data.eval_path=NAME.bin");
  }
  // A vocabulary this small can only be bytes.
  config.model.vocab = 256;
  EXPECT_EQ(train(config).size(), 2);
  config.data.tokenizer = gpt2;
  EXPECT_ERROR(train(config), ExitCode::bad_config, "data.eval_path=" + text + " is text");
  config.data.tokenizer.clear();
  config.model.vocab = 300;
  std::swap(config.data.path, config.data.eval_path);
  EXPECT_ERROR(train(config), ExitCode::bad_config, "train.u16 holds tokens");
}

// As an import leaves it: a user who trains the model further may have only a text.
TEST(TrainingData, TextIsNotLearnedByAModelWithATokenizer) {
  const TempDir dir;
  Config config = tiny_config();
  config.model.vocab = 1000;
  config.train.steps = 1;
  config.train.warmup = 0;
  config.data.path = dir.write("text.txt", raw_tokens(1000, 61));
  const auto begin_with = [&](const char* name, const Tokenizer& tokenizer) {
    config.output = dir / name;
    std::filesystem::create_directory(config.output);
    dir.write(std::string(name) + "/tokenizer.json", tokenizer_to_json(tokenizer));
  };
  begin_with("pieces", load_tokenizer(STRETTO_SOURCE_DIR "/tests/goldens/tokenizer/gpt2.json"));
  EXPECT_ERROR(train(config), ExitCode::bad_config, "text.txt is text, but the model has");
  config.data.tokenizer = config.output + "/tokenizer.json";  // what is advised can be done
  EXPECT_TRUE(fix_of(config).ends_with("; or set data.tokenizer=bytes to train on bytes"));
  config.data.tokenizer = "bytes";
  EXPECT_EQ(train(config).size(), 1);
  config.data.tokenizer.clear();
  begin_with("bytes", byte_tokenizer());
  EXPECT_EQ(train(config).size(), 1);
  begin_with("damaged", byte_tokenizer());
  dir.write("damaged/tokenizer.json", "{");
  EXPECT_ERROR(train(config), ExitCode::bad_data, "the tokenizer in output= cannot be used");
  EXPECT_TRUE(fix_of(config).starts_with("remove the file"));
  config.data.tokenizer = dir / "damaged/tokenizer.json";
  config.output.clear();
  EXPECT_ERROR(train(config), ExitCode::bad_config, "text.txt is text, but data.tokenizer");
}

TEST(TrainingData, ABatchThatIsNotFullHasRowsWithoutTargets) {
  const auto source = memory_tokens("ten", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  SamplerOptions options;
  options.seq_len = 2;
  options.vocab = 10;
  options.shuffle = false;
  const Sampler sampler(*source, options);
  std::vector<int32_t> tokens(6, 7), targets(6, 7);
  read_filled_batch(sampler, 2, 2, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{4, 5, 6, 7, 0, 0}));
  EXPECT_EQ(targets, (std::vector<int32_t>{5, 6, 7, 8, -1, -1}));
}

}  // namespace
}  // namespace stretto
