// One layer as data: its weights, its matrix products, what it keeps for the backward pass, and
// what its tensor-parallel ranks send. Parameters, initial weights, FLOPs, the memory plan, the
// CPU's workspace, bytes sent, checkpoints and the decoder all loop over this table. How a layer
// runs is written by hand in `model`.
#pragma once

#include <cstdint>
#include <vector>

#include "account/model_shape.h"
#include "account/run_shape.h"
#include "base/enum_array.h"

namespace stretto {

// The weights that a layer can have.
enum class Weight {
  norm1,
  norm1_bias,
  qkv,
  qkv_bias,
  q_norm,
  q_norm_bias,
  k_norm,
  k_norm_bias,
  proj,
  proj_bias,
  post1,
  post1_bias,
  norm2,
  norm2_bias,
  up,
  up_bias,
  down,
  down_bias,
  router,
  expert_up,
  expert_down,
  shared_up,
  shared_down,
  post2,
  post2_bias,
};
constexpr size_t kWeights = 25;
template <typename T>
using PerWeight = EnumArray<Weight, T, kWeights>;
const char* name_of(Weight weight);  // in parameter names, after "h.3.": "attn.qkv.weight"

// How a tensor-parallel group holds a parameter of shape (rows, columns).
struct Cut {
  enum class Along {
    none,     // every rank holds all of it
    rows,     // every rank holds an equal part of each block of rows
    columns,  // rank r holds columns [r k/tp, (r+1) k/tp)
  };
  Along along = Along::none;
  // Rows of the stacked blocks, for `rows`. They repeat down the parameter. Unused ones are 0.
  int64_t blocks[3] = {};

  static constexpr Cut none() { return {}; }
  static constexpr Cut columns() { return {Along::columns, {}}; }
  static constexpr Cut rows(int64_t a, int64_t b = 0, int64_t c = 0) {
    return {Along::rows, {a, b, c}};
  }
  bool operator==(const Cut&) const = default;
};

enum class Init { normal, zeros, ones };

struct WeightSpec {
  Weight role;
  int64_t rows = 0;
  int64_t columns = 1;  // vectors have one
  Cut cut;
  Init init = Init::normal;
  double init_std = 0;

  int64_t count() const { return rows * columns; }
};

// The matrix products of a layer, in order, then the output head. `scores` is q k^T, `values` is
// softmax(scores) v. A router of experts counts as part of their first product.
enum class Product { qkv, scores, values, proj, up, down, head };
constexpr int kProducts = 7;
const char* name_of(Product product);

// (rows, k) times (k, n) with a weight, for all rows of a micro-batch.
struct ProductSpec {
  Product kind;
  int64_t n = 0, k = 0;  // of the whole model; tensor parallelism divides the one that is cut
  Cut::Along cut = Cut::Along::none;
  int64_t times = 1;      // per row: the experts that a token passes through
  bool repeated = false;  // full recomputation repeats it: something reads its output again

  int64_t n_of(int64_t tp) const { return cut == Cut::Along::rows ? n / tp : n; }
  int64_t k_of(int64_t tp) const { return cut == Cut::Along::columns ? k / tp : k; }
  double multiplications() const {  // per row
    return static_cast<double>(times) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// What a layer keeps from its forward to its backward pass.
enum class Saved {
  stream,  // the residual stream coming in
  mean1,
  rstd1,
  qkv,
  att,
  lse,
  stream2,  // after the attention branch
  mean2,
  rstd2,
  pre,  // before and after the activation
  norm1,
  norm2,
  act,
};
constexpr size_t kSaved = 13;
template <typename T>
using PerSaved = EnumArray<Saved, T, kSaved>;
const char* name_of(Saved slot);

// The gradients inside a layer that its weight gradients are computed from.
enum class Inner { dpre, dqkv, dmlp, dattn };
constexpr size_t kInner = 4;
template <typename T>
using PerInner = EnumArray<Inner, T, kInner>;
const char* name_of(Inner slot);

enum class Extent {
  stream,     // (rows, width) of the residual stream, in the compute type
  statistic,  // (rows) of it, f32
  tokens,     // (B T, width / tp) in the compute type
  sequence,   // (B, T, width / tp) in the compute type
  heads,      // (B, width / tp, T), f32
};

struct SavedSpec {
  Saved slot;
  Extent extent;
  int64_t width = 1;
  Checkpointing kept_up_to = Checkpointing::none;  // the last mode that keeps it

  bool kept(Checkpointing mode) const { return mode <= kept_up_to; }
};

struct InnerSpec {
  Inner slot;
  Extent extent;
  int64_t width = 1;
  bool split_only = false;  // only where weight gradients come later
};

// What tensor-parallel ranks send of the residual stream.
enum class StreamCall {
  gather,  // all rows, before a column-parallel product
  reduce,  // the sum of partial results, after a row-parallel one
};
enum class Phase {
  forward,
  backward,
  repeat,    // each time that full recomputation repeats the layer
  deferred,  // also, where weight gradients come later
};
struct TrafficSpec {
  StreamCall call;
  Phase phase;
  int64_t times = 0;
};

struct LayerTable {
  std::vector<WeightSpec> weights;
  std::vector<ProductSpec> products;  // with weights, in order
  std::vector<SavedSpec> saved;
  std::vector<InnerSpec> inner;
  std::vector<TrafficSpec> traffic;
  int64_t attention_width = 0;  // heads times head size: columns of scores' and values' operands
  int64_t window = 0;
};

LayerTable layer_table(const ModelShape& model, int64_t layer);

// Calls visit(table, layers) for each kind of layer that the model has.
template <typename Visit>
void each_layer_kind(const ModelShape& model, Visit&& visit) {
  const auto kinds = model.pattern.empty() ? 1 : static_cast<int64_t>(model.pattern.size());
  for (int64_t first = 0; first < kinds && first < model.layers; ++first) {
    visit(layer_table(model, first), (model.layers - first - 1) / kinds + 1);
  }
}

}  // namespace stretto
