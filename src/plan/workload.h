// The question to the planner: the work (a model, a sequence length, a batch), and one way to lay
// it out over devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "account/model_shape.h"
#include "base/ceil_div.h"
#include "config/config.h"

namespace stretto::plan {

struct Workload {
  ModelShape model;
  int64_t seq_len = 0;
  int64_t global_batch = 0;  // sequences per iteration
  Precision precision = Precision::amp_bf16;
  // The model as `stretto train` would take it, if the user named it so.
  std::vector<std::string> model_words = {};
  // Options of our own runtime.
  DType gradient_type = DType::f32;
  DType reduce_type = DType::f32;  // of gradients while they are sent over dp
  int64_t logits_chunk = 0;        // bytes; 0: what suits the device
  bool activation_offload = false, optimizer_offload = false;
  bool repeatable = true;
  bool deterministic = false;
  int64_t ramp_step = 0;  // divides all batches of a ramp-up; 0: there is none
};

// A topology as the planner writes it: what changes nothing is left out, so that equal layouts are
// equal values.
struct Layout : Topology {
  Layout() { sequence_parallel = false; }

  int64_t micro_batch = 1;
  Checkpointing recompute = Checkpointing::none;

  int64_t devices() const { return ranks(); }
  bool operator==(const Layout&) const = default;
};

// Micro-batches that each pipeline runs per iteration; the last may be partial.
inline int64_t micro_batches(const Workload& work, const Layout& layout) {
  const int64_t per_step = layout.dp * layout.micro_batch;
  return ceil_div(work.global_batch, per_step);
}

// Parameters on a tensor rank, as the cost and the memory model count them.
struct RankParameters {
  double layer = 0;
  double embedding = 0;  // its part of the token table

  RankParameters(const ModelShape& model, int64_t tp);
  // The first and the last stage each hold the token table.
  double on_stage(int64_t layers, bool first, bool last) const {
    return static_cast<double>(layers) * layer + (first || last ? embedding : 0);
  }
};

std::string describe(const Layout& layout);  // "dp8 tp4 pp12 mbs2 zero1 full"
// Explains the short words of these descriptions: "mbs: micro-batch; sp: ...".
std::string legend_of(const std::vector<Layout>& layouts);

// Transformer layers on each pipeline stage (each rank, its chunks together).
std::vector<int64_t> stage_layers(const ModelShape& model, const Layout& layout);

}  // namespace stretto::plan
