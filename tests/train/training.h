// Whole training runs in a test: a tiny model, thread ranks, all step records of rank 0.
#pragma once

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "comm/threads.h"
#include "config/config.h"
#include "config/rules.h"
#include "train/run.h"

namespace stretto {

// The tests of this folder train on the cpu, and on a GPU with STRETTO_TEST_DEVICE=cuda
// (tools/gpu-check).
inline Device test_device() {
  const char* device = std::getenv("STRETTO_TEST_DEVICE");
  return device != nullptr && std::string_view(device) == "cuda" ? Device::cuda : Device::cpu;
}

inline Config tiny_config() {
  Config config;
  config.device = test_device();
  config.model = {"test", 4, 32, 4, 61, 16, 128};
  config.seq_len = 16;
  config.micro_batch = 2;
  config.global_batch = 8;
  config.threads = 1;
  config.train.steps = 6;
  config.train.lr = 3e-3;
  config.train.warmup = 2;
  config.log.every = 1000000;
  return config;
}

// For configurations that the rules refuse, too.
inline std::vector<StepRecord> train_unchecked(const Config& config) {
  std::vector<StepRecord> steps;
  run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
    RunOptions options;
    options.print = false;
    if (world.rank() == 0) options.on_step = [&](const StepRecord& s) { steps.push_back(s); };
    run_training(config, world, options);
  });
  return steps;
}

inline std::vector<StepRecord> train(const Config& config) {
  require_valid(config);
  return train_unchecked(config);
}

inline std::vector<double> losses_of(const std::vector<StepRecord>& steps) {
  std::vector<double> all;
  for (const StepRecord& step : steps) all.push_back(step.loss);
  return all;
}

inline std::vector<double> losses(const Config& config) { return losses_of(train(config)); }

}  // namespace stretto
