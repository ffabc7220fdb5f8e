// Training on a user's token files: the layout is told by data.format where it cannot be seen.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
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

}  // namespace
}  // namespace stretto
