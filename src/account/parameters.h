// The parameters of a GPT as one list: which there are, how tensor-parallel ranks cut them, how
// they are initialised. Counting, initialisation, the optimizer, checkpoints and exports all use
// this list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "account/model_shape.h"

namespace stretto {

// How a tensor-parallel group holds a parameter of shape (rows, columns).
enum class Split {
  none,     // every rank holds all of it
  rows,     // rank r holds rows [r n/tp, (r+1) n/tp)           (column-parallel linear, embedding)
  qkv,      // three stacked blocks (q, k, v), each cut by rows  (heads stay whole)
  columns,  // rank r holds columns [r k/tp, (r+1) k/tp)         (row-parallel linear)
};

enum class Init { normal, zeros, ones };

struct ParameterSpec {
  std::string name;  // "h.3.attn.qkv.weight"
  int64_t rows = 0;  // vectors have one column
  int64_t columns = 1;
  Split split = Split::none;
  Init init = Init::normal;
  double init_std = 0.02;
  bool decay = false;  // weight decay applies to matrices only
  int64_t layer = -1;  // -1: embedding or head side, see `unit`
  enum class Unit { embedding, layer, head } unit = Unit::layer;

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
// Of such a parameter: its rows, and its elements, without those that pad the vocabulary.
int64_t real_rows(const ParameterSpec& spec, const ModelShape& model);
int64_t real_count(const ParameterSpec& spec, const ModelShape& model);

int64_t parameter_count(const ModelShape& model);

// Elements of the parameter that one of tp ranks holds.
int64_t shard_count(const ParameterSpec& spec, int64_t tp);

// The shard as runs of consecutive elements of the global row-major tensor, in shard order. Weights
// are initialised, saved and loaded through these runs, so a shard is always a slice of the whole.
struct Run {
  int64_t global_begin = 0;
  int64_t count = 0;
};
std::vector<Run> shard_runs(const ParameterSpec& spec, int64_t tp, int64_t tp_rank);

}  // namespace stretto
