// One rank's part of a checkpoint, copied out of the running model, so that training can go on
// while it is written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/fs.h"
#include "checkpoint/manifest.h"
#include "checkpoint/runs.h"

namespace stretto {

// In a checkpoint a parameter's weight has the parameter's name; its moments have these prefixes.
constexpr const char* kMomentPrefix[2] = {"optimizer.m.", "optimizer.v."};
// "optimizer.m.wte" -> "wte".
std::string parameter_of(const std::string& tensor);

struct ShardTensor {
  std::string name;
  Placement placement;
  DType type = DType::f32;
  int64_t offset = 0;  // bytes, in the shard's data

  int64_t bytes() const {
    return element_count(placement.runs) * static_cast<int64_t>(dtype_size(type));
  }
};

struct Shard {
  std::vector<ShardTensor> tensors;  // in the order of their bytes, without gaps
  int64_t bytes = 0;

  // Appends a tensor; its bytes are filled in after allocate().
  void add(std::string name, Placement placement, DType type);
  // Allocates memory for the data, aligned so that a file of this step can be written past the page
  // cache. Memory that is large enough is kept.
  void allocate(int64_t step);
  char* at(size_t tensor) { return data_ + tensors[tensor].offset; }
  const char* data() const { return data_; }

 private:
  std::unique_ptr<char[]> memory_;
  char* data_ = nullptr;  // in memory_
  int64_t capacity_ = 0;
};

// Bytes of the file that write_shard would make.
int64_t shard_file_bytes(const Shard& shard, int64_t step);

struct WriteTimes {
  double digest = 0, write = 0, sync = 0;  // seconds; `digest`: for which writing waited for it
};

// Writes, syncs and closes a new safetensors file; reserves its space first. Digests are taken
// meanwhile. Adds the time that each part took to `times`.
FileRecord write_shard(Fs& fs, const std::string& path, const Shard& shard, int64_t step,
                       WriteTimes& times, const OnProgress& moved = unheard);

}  // namespace stretto
