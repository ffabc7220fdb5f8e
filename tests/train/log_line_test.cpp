#include "train/log_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/training.h"

namespace stretto {
namespace {

StepRecord record() {
  StepRecord r;
  r.step = 2;
  r.steps = 95367;
  r.consumed_samples = 4096;
  r.consumed_tokens = 8388608;
  r.global_batch = 2048;
  r.tokens = 2048 * 16;
  r.loss = 12.5;
  r.learning_rate = 3.787e-9;
  r.loss_scale = 4096;
  r.grad_norm = 7.5;
  r.times.total = 2;
  return r;
}

StepRecord step_of(int64_t step, double loss, double seconds, int64_t tokens) {
  StepRecord r = record();
  r.step = step;
  r.loss = loss;
  r.times.total = seconds;
  r.tokens = tokens;
  return r;
}

TEST(LogLine, IsAboutTheStepsSinceTheLineBefore) {
  LineMeans means;
  means.add(step_of(1, 9, 50, 100));  // slow: its loss alone counts
  means.add(step_of(2, 8, 2, 100));
  means.add(step_of(3, 4, 4, 200));
  const StepRecord first = means.take();
  EXPECT_EQ(first.step, 3);
  EXPECT_DOUBLE_EQ(first.loss, 7);
  EXPECT_DOUBLE_EQ(first.times.total, 3);
  EXPECT_DOUBLE_EQ(first.tokens_per_second(), 50);
  means.add(step_of(4, 3, 5, 200));
  EXPECT_DOUBLE_EQ(means.take().loss, 3);
  LineMeans one;
  one.add(step_of(1, 9, 50, 100));
  EXPECT_DOUBLE_EQ(one.take().times.total, 50);
}

// A GPU without `trace` times neither operators nor what it waits for NCCL: 0 would be a claim.
TEST(LogLine, WhatWasNotTimedIsAbsent) {
  Config config;
  config.parallel.pp = 2;
  StepRecord r = record();
  r.times.comm_pp = 0.5;
  r.times.ops_known = false;
  auto times = nlohmann::json::parse(json_line(config, r))["times"];
  EXPECT_EQ(times["comm_pp"], 0.5);
  EXPECT_FALSE(times.contains("matmul"));
  EXPECT_FALSE(times.contains("host"));
  r.times.waits_known = false;
  const auto line = nlohmann::json::parse(json_line(config, r));
  EXPECT_EQ(line["times"].size(), 1u) << line["times"];
  EXPECT_FALSE(line.contains("bubble"));
  for (const Scalar& scalar : step_scalars(config, r)) EXPECT_NE(scalar.tag, "bubble");
}

TEST(LogLine, LossesOfSkippedStepsCountOnlyWhereThereAreNoOthers) {
  LineMeans means;
  StepRecord skipped = step_of(2, NAN, 1, 100);
  skipped.skipped = true;
  means.add(step_of(1, 9, 1, 100));
  means.add(skipped);
  means.add(step_of(3, 7, 1, 100));
  EXPECT_DOUBLE_EQ(means.take().loss, 8);
  skipped.loss = 6;
  means.add(skipped);
  EXPECT_DOUBLE_EQ(means.take().loss, 6);
}

TEST(LogLine, MegatronsSamplesPerSecondAreThoseOfTheMeanStep) {
  Config config = tiny_config();
  LineMeans means;
  means.add(step_of(1, 9, 50, config.seq_len));
  means.add(step_of(2, 8, 2, 4 * config.seq_len));
  StepRecord grown = step_of(3, 8, 6, 12 * config.seq_len);
  grown.global_batch = 12;
  means.add(grown);
  const std::string line = megatron_line(config, means.take());
  EXPECT_NE(line.find("samples per second: 2.000 "), std::string::npos) << line;
}

TEST(LogLine, MegatronsLineOfAnEvaluation) {
  EXPECT_EQ(megatron_evaluation(2, 4.914266),
            " validation loss at iteration 2 | lm loss value: 4.914266E+00 | "
            "lm loss PPL: 1.362193E+02 | ");
  EXPECT_NE(megatron_evaluation(2, 30).find("PPL: 4.851652E+08"), std::string::npos);
  // The sign of a NaN says nothing.
  const double minus_nan = std::copysign(NAN, -1.0);
  EXPECT_EQ(compact_evaluation(2, minus_nan), "eval at step 2 | loss nan | perplexity nan");
  EXPECT_NE(megatron_evaluation(2, minus_nan).find("value: NAN |"), std::string::npos);
}

TEST(LogLine, MegatronFieldsInOrder) {
  Config config = tiny_config();
  config.seq_len = 16;
  const std::string line = megatron_line(config, record());
  size_t at = 0;
  for (const char* field :
       {"iteration        2/   95367", "consumed samples:         4096",
        "consumed tokens:      8388608", "elapsed time per iteration (s): 2.00",
        "learning rate: 3.787E-09", "global batch size:  2048", "lm loss: 1.250000E+01",
        "loss scale: 4096.0", "grad norm: 7.500", "num zeros: 0.0",
        "number of skipped iterations:   0", "number of nan iterations:   0",
        "samples per second: 1024.000", "TFLOPs: "}) {
    const size_t found = line.find(field, at);
    ASSERT_NE(found, std::string::npos) << field << " in " << line;
    at = found;
  }
}

TEST(LogLine, JsonHasBytesByCallAndTheBubble) {
  StepRecord r = record();
  Config config = tiny_config();
  EXPECT_EQ(json_line(config, r).find("by_call"), std::string::npos);
  EXPECT_EQ(json_line(config, r).find("bubble"), std::string::npos);
  r.comm_dp.all_reduce_bytes = 7;
  r.comm_dp.all_gather_bytes = 5;
  r.comm_pp.send_bytes = 3;
  r.times.comm_pp = 0.5;
  config.parallel.pp = 2;
  const auto line = nlohmann::json::parse(json_line(config, r));
  EXPECT_EQ(line["comm_bytes"].dump(), R"({"dp":12,"pp":3,"tp":0})");
  EXPECT_EQ(line["comm_bytes_by_call"].dump(),
            R"({"dp":{"all_gather":5,"all_reduce":7},"pp":{"send":3}})");
  EXPECT_EQ(line["bubble"], 0.25);
}

TEST(LogLine, JsonHasNoNaN) {
  StepRecord r = record();
  r.loss = NAN;
  const std::string line = json_line(tiny_config(), r);
  EXPECT_NE(line.find("\"loss\":null"), std::string::npos);
  EXPECT_EQ(line.find("nan,"), std::string::npos);
}

TEST(LogLine, ANanHasNoSign) {
  StepRecord r = record();
  r.loss = r.grad_norm = std::copysign(NAN, -1);
  for (const std::string& line :
       {compact_line(tiny_config(), r, 0, 80), megatron_line(tiny_config(), r)}) {
    EXPECT_EQ(line.find("-nan"), std::string::npos) << line;
    EXPECT_EQ(line.find("-NAN"), std::string::npos) << line;
  }
}

TEST(LogLine, MfuIsSaidWhereThePeakIsKnown) {
  const Config config = tiny_config();
  StepRecord r = record();
  EXPECT_FALSE(nlohmann::json::parse(json_line(config, r)).contains("mfu"));
  EXPECT_EQ(compact_line(config, r, 0, 200).find("MFU"), std::string::npos);
  r.peak = model_flops_per_rank(config, r) / 0.572;
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(json_line(config, r))["mfu"], 0.572);
  EXPECT_NE(compact_line(config, r, 0, 200).find(" GFLOP/s | MFU 57.2% | eta "), std::string::npos);
  r.times.total = 0;  // no clock, no share
  EXPECT_FALSE(nlohmann::json::parse(json_line(config, r)).contains("mfu"));
}

// The loss and what was skipped are always there, and fields are whole.
TEST(LogLine, FitsTheWidth) {
  Config config = tiny_config();
  StepRecord r = record();
  r.peak = model_flops_per_rank(config, r) / 0.572;
  for (const int64_t steps : {100, 95367, 1000000}) {
    for (const bool skipped : {false, true}) {
      for (const Precision precision : {Precision::fp32, Precision::amp_fp16}) {
        r.step = steps / 2;
        r.steps = steps;
        r.skipped = skipped;
        config.precision = precision;
        const std::string all = " | " + compact_line(config, r, 7200, 500) + " | ";
        EXPECT_NE(all.find(" | MFU 57.2% | "), std::string::npos) << all;
        EXPECT_NE(all.find(" | eta 2.0 h | "), std::string::npos) << all;
        for (const size_t width : {60, 80, 100, 120, 200}) {
          std::string line = compact_line(config, r, 7200, width);
          EXPECT_LE(line.size(), width) << line;
          EXPECT_NE(line.find("loss 12.5000"), std::string::npos) << line;
          EXPECT_EQ(line.find("SKIPPED") != std::string::npos, skipped) << line;
          EXPECT_EQ(line.find('\n'), std::string::npos) << "a step is a line";
          line = " | " + line + " | ";
          for (size_t at = 0; (at = line.find(" | ", at)) + 3 < line.size(); ++at) {
            const std::string field = line.substr(at, line.find(" | ", at + 3) + 3 - at);
            EXPECT_NE(all.find(field), std::string::npos) << field << " in " << all;
          }
        }
      }
    }
  }
}

// A field that fits once fits always: it does not come and go with the digits of the others.
TEST(LogLine, KeepsItsFields) {
  const Config config = tiny_config();
  StepRecord r = record();
  r.steps = 100;
  size_t width = 80;
  const auto fields = [&](int64_t step, double loss, double norm, double seconds, double eta) {
    r.step = step;
    r.loss = loss;
    r.grad_norm = norm;
    r.times.total = seconds;
    const std::string line = compact_line(config, r, eta, width);
    return std::count(line.begin(), line.end(), '|');
  };
  for (width = 60; width < 120; ++width) {
    const auto usual = fields(1, 5.5, 1.234, 0.1, 90);
    for (const double seconds : {0.00012, 0.00912, 0.0123, 0.3456, 12.345}) {
      EXPECT_EQ(fields(10, 2.5, 0.5, seconds, 3), usual) << width;
      EXPECT_EQ(fields(99, 2.5, 25.6, seconds, 99 * 60), usual) << width;
    }
  }
}

TEST(LogLine, JsonSaysWhatTheGpuDid) {
  StepRecord r = record();
  EXPECT_EQ(json_line(tiny_config(), r).find("gpu"), std::string::npos) << "on a CPU";
  r.device_bytes = 123456789;
  r.gpu = {3, 1755, 1700, 3201, 655.5, 690, 61, 0};
  const std::string line = json_line(tiny_config(), r);
  for (const char* field : {"\"bytes\":123456789", "\"sm_clock_mhz\":1755", "\"power_watts\":655.5",
                            "\"temperature_c\":61", "\"held_back_by\":\"none\"}}"}) {
    EXPECT_NE(line.find(field), std::string::npos) << field << " in " << line;
  }
}

// host() is what the other parts leave of the total, so it shows if one of them is counted twice.
TEST(LogLine, PartsOfAStepDoNotExceedIt) {
  for (const StepRecord& r : train(tiny_config())) {
    EXPECT_GE(r.times.host(), 0);
    EXPECT_GT(*std::max_element(r.times.ops.begin(), r.times.ops.end()), 0);
  }
}

}  // namespace
}  // namespace stretto
