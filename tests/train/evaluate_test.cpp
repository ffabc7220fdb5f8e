// An evaluation within a run: the loss on what is held out, of the weights of that step.
#include "train/evaluate.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/random.h"
#include "base/units.h"
#include "checkpoint/store.h"
#include "support/temp_dir.h"
#include "train/training.h"

namespace stretto {
namespace {

// The trained-on part counts upwards, the held-out part downwards: a model of the one is no model
// of the other.
std::vector<int32_t> tokens_with_another_end(int64_t count, int64_t held_out) {
  const CounterRng rng(3, 4);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    const auto jump = static_cast<int64_t>(rng.bits(static_cast<uint64_t>(i)) % 3);
    const int64_t id = i < count - held_out ? i + jump : 6 * (count - i) + jump;
    ids.push_back(static_cast<int32_t>(id % 61));
  }
  return ids;
}

std::string as_u16(const std::vector<int32_t>& ids) {
  std::string bytes;
  for (const int32_t id : ids) bytes += {static_cast<char>(id), '\0'};
  return bytes;
}

std::map<int64_t, double> logged_evaluations(const Config& config) {
  std::map<int64_t, double> losses;
  std::istringstream in(content_of(config.output + "/metrics.jsonl"));
  for (std::string text; std::getline(in, text);) {
    const auto line = nlohmann::json::parse(text);
    if (line.contains("eval_loss")) losses[line["step"]] = line["eval_loss"];
  }
  return losses;
}

struct Cut {
  const char* name;
  int dp, tp, pp;
  int64_t micro_batch;

  void apply(Config& config) const {
    config.micro_batch = micro_batch;
    config.parallel.dp = dp;
    config.parallel.tp = tp;
    config.parallel.pp = pp;
  }
};
constexpr Cut kCuts[] = {{"one rank", 1, 1, 1, 2},
                         {"a ragged batch", 1, 1, 1, 3},
                         {"dp", 4, 1, 1, 2},
                         {"tp", 1, 2, 1, 2},
                         {"pp", 1, 1, 2, 2}};

// Trains with evaluations and checkpoints of the same steps, and evaluates the checkpoints on
// `held_out`. 11 sequences in batches of 8: the second batch is short, and of four ranks one has no
// part in it.
void expect_losses_of_checkpoints(Config config, const std::vector<int32_t>& held_out) {
  const auto source = memory_tokens("held out", held_out);
  const int64_t sequences = (source->tokens() - 1) / config.seq_len;
  ASSERT_EQ(sequences, 11);
  config.train.steps = 4;
  config.train.eval_every = config.checkpoint.every = 2;
  for (const Cut& cut : kCuts) {
    for (const int64_t batches : {1, 5}) {
      SCOPED_TRACE(fmt::format("{}, {}", cut.name, counted(batches, "batch")));
      const TempDir dir(Where::memory);
      config.output = dir / "run";
      cut.apply(config);
      config.train.eval_batches = batches;
      train(config);
      const std::map<int64_t, double> logged = logged_evaluations(config);
      ASSERT_EQ(logged.size(), 2u);
      for (const auto& [step, loss] : logged) {
        const Checkpoint checkpoint = Checkpoint::open(
            posix_fs(), fmt::format("{}/checkpoints/step-{}", config.output, step));
        const int64_t limit = batches * config.global_batch * config.seq_len;
        const EvalResult expected = evaluate_tokens(
            checkpoint, *source, {.config = eval_config(checkpoint), .max_tokens = limit});
        EXPECT_NEAR(loss, expected.loss, 1e-6 * expected.loss) << "step " << step;
      }
    }
  }
}

TEST(Evaluation, IsTheLossOfTheStepsCheckpointOnTheHeldOutTail) {
  const TempDir dir;
  Config config = tiny_config();
  constexpr int64_t kTail = 11 * 16 + 5;
  const std::vector<int32_t> ids = tokens_with_another_end(2000, kTail);
  config.data.path = dir.write("tokens.u16", as_u16(ids));
  config.data.eval_fraction = (kTail + 0.5) / 2000.0;
  expect_losses_of_checkpoints(config, {ids.end() - kTail, ids.end()});
}

TEST(Evaluation, IsTheLossOfTheStepsCheckpointOnAFileOfItsOwn) {
  const TempDir dir;
  Config config = tiny_config();
  const std::vector<int32_t> held_out = tokens_with_another_end(11 * 16 + 1, 11 * 16 + 1);
  config.data.path = dir.write("train.u16", as_u16(tokens_with_another_end(2000, 0)));
  config.data.eval_path = dir.write("valid.u16", as_u16(held_out));
  expect_losses_of_checkpoints(config, held_out);
}

// No backward pass follows, so only the first stage's own wait keeps it from writing over an output
// that is still to be sent. Messages above 64 KiB wait for their receiver.
TEST(Evaluation, AStageThatIsAheadKeepsItsOutputsUntilTheyHaveGone) {
  const TempDir dir;
  Config config = tiny_config();
  config.model = {"test", 2, 128, 2, 250, 64, 128};
  config.seq_len = 64;
  config.micro_batch = 4;
  config.global_batch = 32;
  config.train.steps = config.train.eval_every = 1;
  config.train.warmup = 0;
  config.data.path = dir.write("tokens.u16", as_u16(tokens_with_another_end(8000, 3000)));
  config.data.eval_fraction = 0.4;
  const auto evaluated = [&](int64_t pp) {
    const TempDir run(Where::memory);
    config.output = run.path();
    config.parallel.pp = pp;
    train(config);
    return logged_evaluations(config).at(1);
  };
  const double one = evaluated(1);
  EXPECT_NEAR(evaluated(2), one, 1e-6 * one);
}

TEST(Evaluation, ChangesNothingInTheSteps) {
  const TempDir dir;
  Config config = tiny_config();
  const std::string tokens = as_u16(tokens_with_another_end(2000, 200));
  config.data.path = dir.write("tokens.u16", tokens);
  config.data.eval_path = dir.write("valid.u16", tokens);  // a tail would be trained on without
  config.train.steps = 4;
  for (const Cut& cut : kCuts) {
    cut.apply(config);
    config.train.eval_every = 1000;  // holds the same tokens out, and evaluates none of them
    const std::vector<double> without = losses(config);
    config.train.eval_every = 1;
    EXPECT_EQ(losses(config), without) << cut.name;
  }
}

}  // namespace
}  // namespace stretto
