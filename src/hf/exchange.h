// Models to and from Hugging Face directories.
#pragma once

#include <functional>
#include <string>

#include "base/dtype.h"
#include "base/fs.h"
#include "checkpoint/checkpoint.h"

namespace stretto {

struct ExportOptions {
  std::string tokenizer;  // tokenizer.json or its directory, or "bytes"; empty: none known
  int64_t shard_bytes = 5'000'000'000;  // larger files are split
  DType dtype = DType::f32;             // of every tensor: f32, bf16 or f16
  // Called before each tensor. If it returns true, what was written is removed and resumable is
  // thrown.
  std::function<bool()> stop = {};
};

struct ExchangeResult {
  std::string family;  // "gpt2", "mpt"
  size_t tensors = 0;
  size_t files = 0;
  int64_t bytes = 0;
  bool tokenizer = false;
};

// Writes config.json, generation_config.json, model.safetensors (or shards with an index) and
// tokenizer.json into a new directory, which gets its name when it is complete.
ExchangeResult export_hf(Fs& fs, const Checkpoint& checkpoint, const std::string& directory,
                         const ExportOptions& options = {});

// Reads such a directory and saves it as step 0 of a run, for training, generation and evaluation,
// with a model.yaml that describes the model to `train`. The model gets the name of the directory,
// without characters that a name must not contain. A tokenizer that cannot be used is left out,
// with a warning. Nobody else may write into `run_directory` meanwhile: what is unfinished there is
// removed. `stop` is as for an export, and called once more before the checkpoint gets its name.
ExchangeResult import_hf(Fs& fs, const std::string& directory, const std::string& run_directory,
                         const std::function<bool()>& stop = {});

}  // namespace stretto
