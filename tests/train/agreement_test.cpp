// Ranks that are processes may have read other things. Here they are threads with configurations of
// their own; mpi_train_test.sh does the same with processes.
#include "train/agreement.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/host.h"
#include "config/schema.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "training.h"

namespace stretto {
namespace {

using Change = std::function<void(Config&, RunOptions&)>;

Config two_ranks() {
  Config config = tiny_config();
  config.parallel.dp = 2;
  return config;
}

// Trains with ranks of which the last is changed. Returns the losses that rank 0 saw.
std::vector<double> train_unlike(const Config& config, const Change& change) {
  std::vector<double> losses;
  run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
    Config own = config;
    RunOptions options;
    options.print = false;
    if (world.rank() + 1 == world.size()) change(own, options);
    if (world.rank() == 0) {
      options.on_step = [&](const StepRecord& step) { losses.push_back(step.loss); };
    }
    run_training(own, world, options);
  });
  return losses;
}

void expect_refused(const Config& config, const Change& change, const std::string& part) {
  EXPECT_ERROR(train_unlike(config, change), ExitCode::bad_config, part);
}

TEST(Agreement, NamesTheKeyTheRanksAndTheMachine) {
  const std::string host = host_name();
  expect_refused(
      two_ranks(), [](Config& own, RunOptions&) { own.train.lr = 1e-5; },
      "the ranks of this run differ: train.lr is 1e-05 on rank 1 (" + host +
          "), but 0.003 on rank 0 (" + host + ")");
  expect_refused(
      two_ranks(),
      [](Config& own, RunOptions&) {
        own.train.steps = 7;
        own.train.clip = 2;
      },
      "train.steps is 7 on rank 1 (" + host + "), but 6 on rank 0 (" + host + "); 1 more differ");
  Config three = two_ranks();
  three.parallel.dp = 3;
  expect_refused(
      three, [](Config& own, RunOptions&) { own.seed = 5; }, "seed is 5 on rank 2");
  // A program of another version knows other things.
  expect_refused(
      two_ranks(),
      [](Config&, RunOptions& options) {
        options.program.push_back({"commit", "abc"});
      },
      "commit is abc on rank 1 (" + host + "), but unknown on rank 0 (" + host + ")");
}

Value another(const Key& key, const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return !*flag;
  if (const double* real = std::get_if<double>(&value)) return *real + 1;
  if (const int64_t* count = std::get_if<int64_t>(&value)) return *count + 1;
  for (const std::string& word : key.words) {
    if (Value(word) != value) return word;
  }
  return std::string("[1, 3]");  // texts and lists
}

TEST(Agreement, EveryKeyIsComparedUnlessItTellsAMachineItsShare) {
  const std::vector<Fact> facts = config_facts(two_ranks());
  std::string unnoticed;
  for (const Key& key : config_keys()) {
    Config other = two_ranks();
    key.set(other, another(key, key.get(other)));
    bool noticed = false;
    const std::vector<Fact> changed = config_facts(other);
    for (size_t i = 0; i < facts.size(); ++i) {
      noticed |= facts[i].name == key.name && facts[i].value != changed[i].value;
    }
    if (!noticed) unnoticed += key.name + " ";
  }
  EXPECT_EQ(unnoticed, "threads memory_limit ");
}

// What used to end as an error of MPI, or by the watchdog.
TEST(Agreement, ComesBeforeAnyOtherMessage) {
  const std::vector<std::pair<std::string, Change>> changes = {
      {"global_batch is 4", [](Config& own, RunOptions&) { own.global_batch = 4; }},
      {"parallel.zero is 1", [](Config& own, RunOptions&) { own.parallel.zero = 1; }},
      {"parallel.dp is 1",
       [](Config& own, RunOptions&) { std::swap(own.parallel.dp, own.parallel.tp); }},
      {"model.layers is 2", [](Config& own, RunOptions&) { own.model.layers = 2; }},
      {"output is set", [](Config& own, RunOptions&) { own.output = "/nowhere"; }},
      {"commit is def on rank 1",
       [](Config&, RunOptions& options) { options.program.at(0).value = "def"; }}};
  Config config = two_ranks();
  for (const auto& [part, change] : changes) {
    run_thread_ranks(2, [&, &part = part, &change = change](Comm& world) {
      Config own = config;
      RunOptions options;
      options.print = false;
      options.program = {{"commit", "abc"}};
      if (world.rank() == 1) change(own, options);
      EXPECT_ERROR(run_training(own, world, options), ExitCode::bad_config, part);
    });
  }
}

TEST(Agreement, WhatAMachineHasOfItsOwnMayDiffer) {
  const TempDir dir;
  Config config = two_ranks();
  config.data.path = dir.write("a", std::string(1000, '\1'));
  const std::string copy = dir.write("b", std::string(1000, '\1'));
  const auto nothing = [](Config&, RunOptions&) {};
  const auto own_things = [&](Config& own, RunOptions&) {
    own.threads = 2;
    own.memory_limit = int64_t{1} << 30;
    own.data.path = copy;
  };
  EXPECT_EQ(train_unlike(config, own_things), train_unlike(config, nothing));
}

TEST(Agreement, OtherDataIsNoticed) {
  const TempDir dir;
  Config config = two_ranks();
  config.output = dir / "run";
  config.data.path = dir.write("a", std::string(1000, '\1'));
  const std::string other = dir.write("b", std::string(999, '\1') + '\2');
  const std::string longer = dir.write("c", std::string(1001, '\1'));
  expect_refused(
      config, [&](Config& own, RunOptions&) { own.data.path = other; },
      "data.path is 1000 tokens with digest ");
  expect_refused(
      config, [&](Config& own, RunOptions&) { own.data.path = longer; },
      "(" + longer + ") on rank 1 (");
  config.data.eval_path = config.data.path;
  expect_refused(
      config, [&](Config& own, RunOptions&) { own.data.eval_path = other; },
      "data.eval_path is 1000 tokens with digest ");
  EXPECT_FALSE(std::filesystem::exists(config.output));
}

}  // namespace
}  // namespace stretto
