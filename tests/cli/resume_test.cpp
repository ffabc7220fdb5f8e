// A run that is asked to stop, killed, or started twice, as schedulers and people do it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "support/program.h"

namespace stretto::test {
namespace {

using nlohmann::json;

constexpr int kSteps = 16;

std::vector<std::string> command(const std::string& output) {
  return {
      "train",           "tiny-100k", "seq_len=64",         "global_batch=8",
      "micro_batch=4",   "threads=1", "checkpoint.every=4", "train.steps=" + std::to_string(kSteps),
      "output=" + output};
}

// Step -> loss; every step must be there once.
std::map<int64_t, double> losses(const std::string& run) {
  std::map<int64_t, double> out;
  std::istringstream lines(content_of(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line);
    if (!record.contains("loss")) continue;
    EXPECT_TRUE(out.emplace(record["step"], record["loss"]).second) << record["step"] << " twice";
  }
  return out;
}

std::string weights(const std::string& run, int64_t step) {
  return content_of(fmt::format("{}/checkpoints/step-{}/shard-00000.safetensors", run, step));
}

// The runs go on until the signal reaches them, which may take any number of steps on busy cores:
// as many are compared. The learning rate does not depend on the number of steps.
TEST(TrainVerb, SignalsStopItAndTheSameCommandContinues) {
  const TempDir dir(Where::memory);
  const auto train = [&](const std::string& run, int64_t steps) {
    std::vector<std::string> words = command(dir / run);
    words.insert(words.end(),
                 {"train.decay=4", "train.min_lr=1e-4", fmt::format("train.steps={}", steps)});
    return words;
  };
  const std::vector<int> signals = {SIGTERM, SIGUSR1, SIGUSR2, SIGINT, SIGHUP, SIGKILL};
  const auto inherited = ::signal(SIGHUP, SIG_DFL);
  int64_t steps = 0;
  for (const int signal : signals) {
    const std::string run = dir / std::to_string(signal);
    Program program(train(std::to_string(signal), 1'000'000));
    ASSERT_TRUE(program.wrote(run + "/metrics.jsonl", 6));
    if (signal == SIGKILL) {
      ASSERT_TRUE(program.wrote(run + "/metrics.jsonl", "\"checkpoint\":"));
    }
    program.signal(signal);
    const Answer stopped = program.wait();
    if (signal == SIGKILL) {
      EXPECT_EQ(stopped.signal, SIGKILL) << stopped.err;
    } else {
      EXPECT_EQ(stopped.code, 75) << stopped.err;
      EXPECT_TRUE(stopped.says("the same command continues")) << stopped.err;
      const std::string table = stretto_run({"collect", run, "--style", "full"}).out;
      EXPECT_NE(table.find("the same command continues"), std::string::npos) << table;
      EXPECT_EQ(table.find("killed"), std::string::npos) << table;
    }
    const std::string lines = content_of(run + "/metrics.jsonl");
    steps = std::max(steps, std::count(lines.begin(), lines.end(), '\n') + 1);
  }
  ::signal(SIGHUP, inherited);
  ASSERT_EQ(stretto_run(train("whole", steps)).code, 0);
  const auto expected = losses(dir / "whole");
  ASSERT_EQ(std::ssize(expected), steps);
  for (const int signal : signals) {
    const std::string run = dir / std::to_string(signal);
    const Answer continued = stretto_run(train(std::to_string(signal), steps));
    EXPECT_EQ(continued.code, 0) << continued.err;
    EXPECT_TRUE(continued.says("from " + run + "/checkpoints/step-")) << continued.err;
    EXPECT_EQ(losses(run), expected) << strsignal(signal);
    EXPECT_TRUE(weights(run, steps) == weights(dir / "whole", steps)) << strsignal(signal);
  }
}

// The file is the user's: it stays, and ends the next start, too, until it is removed.
TEST(TrainVerb, AStopFileEndsEachStartAfterItsFirstStep) {
  const TempDir dir(Where::memory);
  const std::string run = dir / "run";
  std::filesystem::create_directory(run);
  dir.write("run/stop", "");
  for (const int64_t steps : {1, 2}) {
    const Answer answer = stretto_run(command(run));
    EXPECT_EQ(answer.code, 75) << answer.err;
    EXPECT_TRUE(answer.says("stop")) << answer.err;
    EXPECT_EQ(std::ssize(losses(run)), steps);
    EXPECT_TRUE(std::filesystem::exists(run + "/checkpoints/step-" + std::to_string(steps)));
  }
  EXPECT_TRUE(std::filesystem::remove(run + "/stop"));
  EXPECT_EQ(stretto_run(command(run)).code, 0);
  EXPECT_EQ(losses(run).size(), size_t{kSteps});
}

// log.every=N: every Nth step and the last one on the console, each step in metrics.jsonl.
TEST(TrainVerb, PrintsEveryNthStepAndTheLast) {
  const TempDir dir(Where::memory);
  std::vector<std::string> words = command(dir / "run");
  words.insert(words.end(), "log.every=5");
  const Answer answer = stretto_run(words);
  ASSERT_EQ(answer.code, 0) << answer.err;
  std::vector<std::string> printed;
  std::istringstream lines(answer.out);
  for (std::string line; std::getline(lines, line);)
    printed.push_back(line.substr(0, line.find(" |")));
  EXPECT_EQ(printed,
            (std::vector<std::string>{"step  5/16", "step 10/16", "step 15/16", "step 16/16"}));
  EXPECT_EQ(losses(dir / "run").size(), size_t{kSteps});
}

// Each rank keeps 131,072 events; the others are counted.
TEST(TrainVerb, ATimelineWithoutRoomSaysWhatIsMissing) {
  const TempDir dir(Where::memory);
  const Answer answer = stretto_run({"train", "tiny-100k", "model.hidden=32", "seq_len=8",
                                     "micro_batch=1", "global_batch=32", "threads=1",
                                     "train.steps=140", "trace=130", "output=" + dir / "run"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const std::string trace = content_of(dir / "run/trace.json");
  size_t events = 0;
  for (size_t at = 0; (at = trace.find("\"ph\":\"X\"", at)) != std::string::npos; ++at) ++events;
  EXPECT_EQ(events, size_t{131072});
  const std::string before = "\"dropped_events\":";
  const int64_t dropped = std::stoll(trace.substr(trace.find(before) + before.size()));
  EXPECT_GT(dropped, 0);
  EXPECT_TRUE(answer.says(fmt::format("incomplete: {} events did not fit", dropped))) << answer.err;
}

// With log.format=json the console has the lines of metrics.jsonl, evaluations and saves too.
TEST(TrainVerb, JsonLinesAreThoseOfTheMetrics) {
  const TempDir dir(Where::memory);
  std::vector<std::string> words = command(dir / "run");
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("line {} of a text\n", i * i);
  std::ofstream(dir / "text.txt") << text;
  words.insert(words.end(), {"data.path=" + dir / "text.txt", "model.vocab=256", "parallel.dp=2",
                             "train.eval_every=4", "log.format=json", "log.every=1"});
  const Answer answer = stretto_run(words);
  ASSERT_EQ(answer.code, 0) << answer.err;
  std::map<std::string, int> kinds;
  std::istringstream lines(answer.out);
  for (std::string line; std::getline(lines, line);) {
    const json parsed = json::parse(line);
    for (const auto& [key, value] : parsed.items()) ++kinds[key];
  }
  EXPECT_EQ(answer.out, content_of(dir / "run/metrics.jsonl"));
  EXPECT_EQ(kinds["loss"], kSteps);
  EXPECT_EQ(kinds["eval_loss"], kSteps / 4);
  EXPECT_EQ(kinds["checkpoint"], kSteps / 4);
  EXPECT_GT(kinds["compute_seconds_by_rank"], 0);
}

TEST(TrainVerb, WhatNohupIgnoresStaysIgnored) {
  const TempDir dir(Where::memory);
  const auto inherited = ::signal(SIGHUP, SIG_IGN);
  Program program(command(dir / "run"));
  ::signal(SIGHUP, inherited);
  ASSERT_TRUE(program.wrote(dir / "run/metrics.jsonl", 6));
  program.signal(SIGHUP);
  EXPECT_EQ(program.wait().code, 0);
}

// A run goes on with its data wherever that lies now, and with no other.
TEST(TrainVerb, DataIsKnownByItsTokensNotByItsName) {
  const TempDir dir(Where::memory);
  const auto write = [](const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  };
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("line {} of a text\n", i * i);
  write(dir / "one.txt", text);
  const auto run = [&](const std::string& data, int steps) {
    std::vector<std::string> words = command(dir / "run");
    words.insert(words.end(),
                 {"model.vocab=256", "data.path=" + data, "train.steps=" + std::to_string(steps)});
    return stretto_run(words);
  };
  ASSERT_EQ(run(dir / "one.txt", 4).code, 0);
  write(dir / "moved.txt", text);
  const Answer moved = run(dir / "moved.txt", 6);
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_TRUE(moved.says("data.path=" + dir / "moved.txt")) << moved.err;
  std::reverse(text.begin(), text.end());
  write(dir / "moved.txt", text);  // as many tokens, others
  const Answer other = run(dir / "moved.txt", 8);
  EXPECT_EQ(other.code, 78) << other.err;
  EXPECT_TRUE(other.says("was made with other data")) << other.err;
  write(dir / "moved.txt", text + "more");
  EXPECT_EQ(run(dir / "moved.txt", 8).code, 78);
}

TEST(TrainVerb, RanksThatContradictThemselvesAreRefused) {
  const Answer given = stretto_run({"train", "-n", "2", "tiny-100k", "parallel.dp=1"});
  EXPECT_EQ(given.code, 78) << given.err;
  EXPECT_TRUE(given.says("2 ranks, but parallel.dp x tp x pp = 1 x 1 x 1")) << given.err;
}

TEST(TrainVerb, DegreesThatCannotBeAreNamedWithAnyNumberOfRanks) {
  const std::vector<std::string> train = {"train", "-n", "2", "tiny-100k"};
  const auto refused = [&](const std::vector<std::string>& degrees, std::string_view part) {
    std::vector<std::string> words = train;
    words.insert(words.end(), degrees.begin(), degrees.end());
    expect_refused(words, 78, part);
  };
  refused({"parallel.tp=0"}, "parallel.tp: 0\n    is below the least value, 1");
  refused({"parallel.pp=0"}, "parallel.pp: 0\n    is below the least value, 1");
  // Their product is 0 in 64 bits.
  refused({"parallel.tp=4294967296", "parallel.pp=4294967296"}, "is above the limit, 1048576");
}

TEST(TrainVerb, SaysWhatItTrainsOnWhat) {
  const std::vector<std::string> words = {"train",         "tiny-100k",     "seq_len=16",
                                          "train.steps=1", "micro_batch=1", "global_batch=2",
                                          "threads=1"};
  const Answer answer = stretto_run(words);
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.err.find("info: tiny-100k: 120,576 parameters in fp32 on cpu, "),
            std::string::npos)
      << answer.err;
  EXPECT_NE(answer.err.find("2 sequences of 16 random tokens"), std::string::npos) << answer.err;
}

// The stage with the head needs most, and saves make copies.
TEST(TrainVerb, SaysWhatMemoryTheFullestRankNeeds) {
  const TempDir dir(Where::memory);
  for (const char* output : {"", "run"}) {
    const std::vector<std::string> words = {
        "tiny-100k",        "seq_len=16",
        "model.vocab=5003", "parallel.pp=2",
        "global_batch=4",   "train.steps=1",
        "threads=1",        "output=" + (*output ? dir / output : "")};
    std::vector<std::string> check = words, train = words;
    check.insert(check.begin(), {"config", "check"});
    train.insert(train.begin(), "train");
    const std::string checked = stretto_run(check).out;
    const size_t begin = checked.rfind("; "), end = checked.find(" per rank");
    ASSERT_NE(end, std::string::npos) << checked;
    const std::string needs = checked.substr(begin + 2, end - begin - 2) + " per rank";
    const Answer answer = stretto_run(train);
    EXPECT_TRUE(answer.says(", " + needs + "; ")) << needs << "\n" << answer.err;
  }
}

TEST(TrainVerb, ARunMayEndBeforeItsWarmUp) {
  const std::string run = STRETTO_SOURCE_DIR "/configs/runs/tiny.yaml";
  const Answer cut = stretto_run({"train", run, "train.steps=1", "threads=1"});
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_TRUE(cut.says("ends at 5.00e-04, on its way to 1.00e-03")) << cut.err;
  EXPECT_NE(cut.out.find("step 1/1 | "), std::string::npos) << cut.out;
  EXPECT_FALSE(stretto_run({"train", run, "train.steps=2", "threads=1"}).says("train.warmup"));
}

TEST(TrainVerb, SaysWhereSettingsComeFrom) {
  const TempDir dir(Where::memory);
  std::vector<std::string> words = command(dir / "run");
  ASSERT_EQ(stretto_run(words).code, 0);
  words.insert(words.end(), {"train.steps=17", "train.lr=1e-4"});
  const Answer more = stretto_run(words);
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_TRUE(more.says("from this command: train.steps=17 (checkpoint: 16)")) << more.err;
  EXPECT_TRUE(more.says("train.lr=0.0001")) << more.err;
  EXPECT_TRUE(more.says("weights, optimizer state, step 16, 128 samples consumed")) << more.err;
  words.push_back("seed=7");
  expect_refused(words, 78, "seed=7 (checkpoint: 1234)");
  const char* begins_anew = "(`stretto export`, then `import`, makes one that begins with these";
  EXPECT_TRUE(stretto_run(words).says("set output= to another directory"));
  EXPECT_TRUE(stretto_run(words).says(begins_anew)) << "the same model";
  words.push_back("model.layers=3");
  expect_refused(words, 78, "model.layers=3");
  EXPECT_FALSE(stretto_run(words).says(begins_anew)) << "another model";
}

TEST(TrainVerb, OneRunPerDirectory) {
  const TempDir dir(Where::memory);
  std::vector<std::string> words = command(dir / "run");
  words.push_back("train.steps=100000");
  Program first(words);
  ASSERT_TRUE(first.wrote(dir / "run/metrics.jsonl", 1));
  expect_refused(words, 73, "process " + std::to_string(first.pid()) + " on ");
  ASSERT_TRUE(first.wrote(dir / "run/metrics.jsonl", 6)) << "the first one goes on";
  first.signal(SIGKILL);
  first.wait();
  EXPECT_EQ(stretto_run(command(dir / "run")).code, 0) << "the dead hold no locks";
}

TEST(TrainVerb, DataThatShrinksIsNamed) {
  const TempDir dir(Where::memory);
  const std::string text = dir.write("data.txt", std::string(100000, 'x'));
  std::vector<std::string> words = command(dir / "run");
  words.insert(words.end(), {"data.path=" + text, "train.steps=100000"});
  Program program(words);
  ASSERT_TRUE(program.wrote(dir / "run/metrics.jsonl", 2));
  std::filesystem::resize_file(text, 99999);  // within the last page: no signal tells
  const Answer answer = program.wait();
  EXPECT_EQ(answer.code, 65) << answer.err;
  EXPECT_TRUE(answer.says("data.txt became shorter than 100000 bytes")) << answer.err;
}

}  // namespace
}  // namespace stretto::test
