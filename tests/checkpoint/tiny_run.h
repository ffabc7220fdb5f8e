// Runs of a tiny model into a directory, in one process.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/store.h"
#include "comm/threads.h"
#include "train/run.h"
#include "train/saver.h"

namespace stretto::test {

// STRETTO_LONG=1 runs every trial that the published figures count; otherwise a sample of them.
inline bool long_tests() {
  const char* value = std::getenv("STRETTO_LONG");
  return value != nullptr && std::string_view(value) == "1";
}

inline Config tiny_config(const std::string& output) {
  Config config;
  config.model = {"tiny", 2, 32, 4, 61, 16, 64};
  config.seq_len = 16;
  config.global_batch = 4;
  config.micro_batch = 2;
  config.threads = 1;
  config.train.steps = 12;
  config.train.lr = 3e-3;
  config.train.warmup = 3;
  config.output = output;
  return config;
}

struct TinyRun {
  ExitCode code = ExitCode::ok;
  std::vector<StepRecord> steps;  // as rank 0 saw them
};

inline TinyRun run(const Config& config, RunOptions options = {}) {
  options.print = false;
  options.save_again_after = 0;
  TinyRun result;
  run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
    RunOptions mine = options;
    mine.on_step = [&](const StepRecord& record) {
      if (world.rank() == 0) result.steps.push_back(record);
      if (options.on_step) options.on_step(record);
    };
    const ExitCode code = run_training(config, world, mine).code;
    if (world.rank() == 0) result.code = code;
  });
  return result;
}

inline Checkpoint checkpoint_of(const Config& config, int64_t step) {
  Checkpoint checkpoint = Checkpoint::open(
      posix_fs(), CheckpointStore(posix_fs(), checkpoint_root(config)).path_of(step));
  checkpoint.verify();
  return checkpoint;
}

inline std::vector<float> values_of(const Checkpoint& checkpoint, const std::string& name) {
  const TensorReader reader = checkpoint.reader(name);
  std::vector<float> values(static_cast<size_t>(reader.count()));
  reader.read(0, reader.count(), values.data());
  return values;
}

// Names of tensors whose bits differ.
inline std::vector<std::string> differing(const Checkpoint& a, const Checkpoint& b) {
  std::vector<std::string> names;
  for (const std::string& name : a.tensors()) {
    const auto left = values_of(a, name), right = values_of(b, name);
    const bool same = left.size() == right.size() &&
                      std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
    if (!same) names.push_back(name);
  }
  if (a.tensors() != b.tensors()) names.push_back("(other tensors)");
  return names;
}

}  // namespace stretto::test
