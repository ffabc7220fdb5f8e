// Which tokens of data.path a run trains on, and which a run that goes on.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/tiny_run.h"
#include "config/serialize.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/checkpoint.h"

namespace stretto::test {
namespace {

std::string odd_text(int length) {
  std::string text;
  for (int i = 0; i < length; ++i) text += static_cast<char>(i * i % 61);
  return text;
}

int64_t trained_tokens(const Config& config) { return open_run_data(config, 0, 1).mark.trained; }

// What is not evaluated is not held out.
TEST(TrainedTokens, AllUnlessATailIsEvaluated) {
  const TempDir dir(Where::memory);
  Config config = tiny_config("");
  config.data.path = dir.write("text", odd_text(2000));
  EXPECT_EQ(trained_tokens(config), 2000);
  config.train.eval_every = 5;
  EXPECT_EQ(trained_tokens(config), 1900);
  config.data.eval_path = config.data.path;
  EXPECT_EQ(trained_tokens(config), 2000);
  config.data.eval_path.clear();
  config.data.path = dir.write("short", odd_text(17));  // one sample of 16 + 1
  EXPECT_ERROR(trained_tokens(config), ExitCode::bad_data, "too few");
  config.train.eval_every = 0;
  EXPECT_EQ(trained_tokens(config), 17);
}

// Which tokens a run trains on decides the order of its samples. It stays what it was in the
// beginning, whatever is evaluated later.
TEST(TrainedTokens, StayWhatTheyWere) {
  const TempDir dir(Where::memory);
  const std::string other = dir.write("other", std::string(500, '\1'));
  Config config = tiny_config("");
  config.data.path = dir.write("text", odd_text(2000));
  config.data.eval_fraction = 0.5;  // so that most samples are in another place without it
  config.train.steps = 8;
  const auto never = [](Config&) {};
  const auto tail = [](Config& c) { c.train.eval_every = 3; };
  const auto other_file = [&](Config& c) {
    c.train.eval_every = 3;
    c.data.eval_path = other;
  };
  const std::vector<std::function<void(Config&)>> ways = {never, tail, other_file};
  int runs = 0;
  for (const auto& begun : ways) {
    begun(config);
    const TinyRun whole = run(config);
    for (const auto& resumed : ways) {
      const std::string output = dir / fmt::format("run{}", runs++);
      Config part = config;
      part.output = output;
      std::filesystem::create_directory(output);
      RunOptions options;
      options.enough = [steps = 0]() mutable { return ++steps == 4; };
      ASSERT_EQ(run(part, options).steps.size(), 4u);
      part.train.eval_every = 0;
      part.data.eval_path.clear();
      resumed(part);
      const TinyRun rest = run(part);
      ASSERT_EQ(rest.steps.size(), 4u);
      for (size_t s = 0; s < 4; ++s) EXPECT_EQ(rest.steps[s].loss, whole.steps[s + 4].loss) << runs;
    }
    config.train.eval_every = 0;
    config.data.eval_path.clear();
  }
}

// Older versions held out a tail even if nothing was evaluated, and did not record it.
TEST(TrainedTokens, RunsOfOlderVersionsKeepTheirTail) {
  const TempDir dir(Where::memory);
  Config config = tiny_config(dir / "run");
  config.data.path = dir.write("text", odd_text(2000));
  config.data.eval_fraction = 0.5;
  config.train.steps = 4;
  config.train.eval_every = 1000;  // as they all did
  config.checkpoint.every = 2;
  const TinyRun whole = run(config);
  std::filesystem::remove_all(dir / "run/checkpoints/step-4");
  const CheckpointStore store(posix_fs(), checkpoint_root(config));
  const std::string path = store.path_of(2) + "/manifest.json";
  Manifest manifest = parse_manifest(read_file(posix_fs(), path, 1 << 20), path);
  nlohmann::json state = nlohmann::json::parse(manifest.state);
  ASSERT_EQ(state["data"]["trained"], 1000);
  state["data"].erase("trained");
  manifest.state = state.dump();
  Config saved = config_of(manifest);
  saved.train.eval_every = 0;
  manifest.config = to_json(saved).dump();
  dir.write("run/checkpoints/step-2/manifest.json", manifest_text(manifest));
  config.train.eval_every = 0;
  const TinyRun rest = run(config);
  ASSERT_EQ(rest.steps.size(), 2u);
  EXPECT_EQ(rest.steps[0].loss, whole.steps[2].loss);
  EXPECT_EQ(rest.steps[1].loss, whole.steps[3].loss);
}

}  // namespace
}  // namespace stretto::test
