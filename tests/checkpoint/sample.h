// A small checkpoint of two shards whose values follow from the step.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "support/fault_fs.h"

namespace stretto::test {

inline float sample_value(int64_t step, int64_t element) {
  return static_cast<float>(step * 1000 + element) / 7.0f;
}

// A matrix of 8 x 6 cut by columns, a vector held by the first, moments of the matrix.
inline Shard sample_shard(int part, int64_t step) {
  Shard shard;
  const Placement columns{{8, 6}, {{part * 3, 3, 6, 8}}};
  shard.add("matrix", columns, DType::f32);
  shard.add("optimizer.m.matrix", columns, DType::f32);
  if (part == 0) shard.add("vector", {{700}, {{0, 700, 0, 1}}}, DType::f32);
  shard.allocate(step);
  for (size_t t = 0; t < shard.tensors.size(); ++t) {
    char* out = shard.at(t);
    for (const Run& run : expand_runs(shard.tensors[t].placement.runs)) {
      for (int64_t i = 0; i < run.count; ++i, out += 4) {
        const float value = sample_value(step, run.global_begin + i);
        std::memcpy(out, &value, 4);
      }
    }
  }
  return shard;
}

inline void save_sample(CheckpointStore& store, int64_t step, uint64_t nonce = 7) {
  const Shard shards[2] = {sample_shard(0, step), sample_shard(1, step)};
  const std::string temp = store.begin(step, nonce, 8192);
  try {
    for (int part = 0; part < 2; ++part) store.write_part(temp, part, shards[part], step);
    store.commit(temp, 2, {step, R"({"seed":1})", R"({"step":1})", {}});
  } catch (const FsError&) {
    store.drop(temp);
    throw;
  }
}

// Whether every value is the one that step's sample has.
inline bool holds_sample(const Checkpoint& checkpoint) {
  for (const char* name : {"matrix", "optimizer.m.matrix", "vector"}) {
    const TensorReader reader = checkpoint.reader(name);
    std::vector<float> values(static_cast<size_t>(reader.count()));
    reader.read(0, reader.count(), values.data());
    for (int64_t i = 0; i < reader.count(); ++i) {
      if (values[static_cast<size_t>(i)] != sample_value(checkpoint.manifest().step, i)) {
        return false;
      }
    }
  }
  return true;
}

// The next save after step 10: writes step 20, then removes step 10.
inline void save_and_prune(Fs& fs, const std::string& root) {
  CheckpointStore store(fs, root);
  save_sample(store, 20);
  store.prune(20, 1, 0);
}

// File operations of that, after step 10 is saved in `fs`.
inline int operations_of_a_save(Fs& fs, const std::string& root) {
  CheckpointStore before(fs, root);
  save_sample(before, 10);
  FaultFs counting(fs);
  save_and_prune(counting, root);
  return counting.operations;
}

}  // namespace stretto::test
