// The parameters of a model as one list: which there are, how tensor-parallel ranks cut them, how
// they are initialised. Initialisation, the optimizer, checkpoints and exports all use this list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "account/layer_table.h"

namespace stretto {

// What a group of parameters is for. Each role but `layer` is one unit of the flat layout.
enum class Role { tokens, positions, layer, head };

struct ParameterSpec {
  std::string name;  // "h.3.attn.qkv.weight"
  int64_t rows = 0;  // vectors have one column
  int64_t columns = 1;
  Cut cut;
  Init init = Init::normal;
  double init_std = 0;
  bool decay = false;  // weight decay applies to matrices only
  Role role = Role::layer;
  int64_t layer = -1;  // where the role is `layer`
  Weight weight = {};  // likewise
  bool words = false;  // its rows stand for the words of the vocabulary

  int64_t count() const { return rows * columns; }
  bool vector() const { return columns == 1; }
};

// Rows of the token table as tp ranks hold them, the same number each: a multiple of 64, or of 8
// where there are few. Matrix units of GPUs read rows that begin at multiples of 16 bytes: with
// GPT-2's 50257 columns of logits a step of gpt2-124m took twice the time on an H200. What pads is
// zero, is never predicted, and counts nowhere.
int64_t padded_vocab(const ModelShape& model, int64_t tp);

// In the order of the model: wte, wpe, layers, ln_f, head (untied only).
std::vector<ParameterSpec> parameter_list(const ModelShape& model);
// The same as tp ranks hold it, with the padded vocabulary.
std::vector<ParameterSpec> parameter_list(const ModelShape& model, int64_t tp);
// The rows and elements of such a parameter without those that pad the vocabulary.
int64_t real_rows(const ParameterSpec& spec, const ModelShape& model);
int64_t real_count(const ParameterSpec& spec, const ModelShape& model);

int64_t parameter_count(const ModelShape& model);
int64_t layer_parameter_count(const ModelShape& model, int64_t layer);

// Elements of the parameter that one of tp ranks holds, and columns of that shard.
int64_t shard_count(const ParameterSpec& spec, int64_t tp);
int64_t shard_columns(const ParameterSpec& spec, int64_t tp);

// The shard as runs of consecutive elements of the global row-major tensor, in shard order. Weights
// are initialised, saved and loaded through these runs, so a shard is always a slice of the whole.
struct Run {
  int64_t global_begin = 0;
  int64_t count = 0;
};
std::vector<Run> shard_runs(const ParameterSpec& spec, int64_t tp, int64_t tp_rank);

}  // namespace stretto
