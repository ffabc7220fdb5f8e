// The memory plan: a list of every tensor that one rank holds. The engine allocates exactly this
// list from its arena, and the planner adds it up, so what is predicted is what is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "account/flat_layout.h"
#include "account/model_shape.h"
#include "account/run_shape.h"
#include "tensor/tensor.h"

namespace stretto {

enum class MemoryTerm { weights, gradients, optimizer, activations, logits, communication, data };
constexpr int kMemoryTerms = 7;
const char* name_of(MemoryTerm term);

struct TensorSpec {
  MemoryTerm term;
  std::string label;
  DType type;
  Shape shape;
  std::string over = {};  // shares the memory of that tensor, listed before: never both in use

  size_t bytes() const;  // rounded up to the arena's alignment
};

// Working memory of a backend's operators, in bytes: one part for all threads, and one per thread.
struct Workspace {
  int64_t shared = 0;
  int64_t worker = 0;
  int64_t workers = 0;
};

// The default limit for logits on a GPU: 16384 rows of 50368 words in 16 bits. Such products fill
// whole waves of an H200's multiprocessors.
inline constexpr int64_t kGpuLossChunkBytes = int64_t{1600} << 20;

// Everything the plan of one rank depends on.
struct RankShape {
  ModelShape model;
  int64_t micro_batch = 1;  // B, sequences of the largest micro-batch
  int64_t seq_len = 1;      // T
  int64_t tp = 1;
  int64_t dp = 1;  // ranks that share states (the ZeRO group)
  int zero = 0;
  bool sequence_parallel = true;
  bool deterministic = false;
  Precision precision = Precision::fp32;
  Checkpointing checkpointing = Checkpointing::none;
  std::vector<std::vector<int64_t>> chunks = {{}};  // global layer indices of each model chunk
  bool first_stage = true;                          // chunk 0 begins with the embedding
  bool last_stage = true;                // the last chunk ends with the head and the loss
  bool split_backward = false;           // zero-bubble: weight gradients come later
  std::vector<int64_t> in_flight = {1};  // by chunk: the most micro-batches with live activations
  bool train = true;                     // false: forward only (evaluation, generation)
  int64_t loss_chunk_bytes = 64 << 20;   // the largest size of one chunk of logits
  int64_t accumulation = 1;              // micro-batches per step (loss slots)
  bool activation_offload = false;       // layers' activations wait in host memory
  bool optimizer_offload = false;        // optimizer state lives in host memory
  DType gradient_type = DType::f32;      // of gradients, if the precision has f32 ones
  DType reduce_type = DType::f32;        // of gradients while they are sent over dp
  Workspace workspace;                   // of the CPU backend; empty on GPUs

  int64_t tokens() const { return micro_batch * seq_len; }
  // Rows of the residual stream on this rank.
  int64_t stream_rows() const { return sequence_parallel && tp > 1 ? tokens() / tp : tokens(); }
  // Whether a chunk gets its input from another pipeline rank.
  bool receives_streams() const { return !first_stage || chunks.size() > 1; }
  bool gathers_sequence() const { return sequence_parallel && tp > 1; }
  // Whether gradients are reduced after every micro-batch, through one buffer per unit instead of
  // one for all: with ZeRO 2 and 3, and if the order of sums must not depend on dp.
  bool reduces_each_micro_batch() const { return zero >= 2 || deterministic; }
  bool offloads() const { return train && activation_offload; }
  // Whether GELU's output is recomputed by the last pass that reads its input, in place of that
  // input.
  bool gelu_in_place() const {
    return train && !split_backward &&
           (checkpointing == Checkpointing::gelu || checkpointing == Checkpointing::selective);
  }
  // Whether no other rank sends or receives a stream.
  bool one_stage() const { return first_stage && last_stage && chunks.size() == 1; }
  // Whether rounded copies of gradients are sent, unit by unit, through two buffers in turn.
  bool rounds_gradients() const {
    return dp > 1 && dtype_size(reduce_type) < dtype_size(types().gradient);
  }
  DType sent_gradient() const { return rounds_gradients() ? reduce_type : types().gradient; }
  PrecisionTypes types() const { return types_of(precision, gradient_type); }
  int64_t loss_rows() const;  // rows of logits computed at a time
  Holdings holdings() const;
};

FlatLayout flat_layout(const RankShape& shape);

// The activations that a layer keeps from its forward to its backward pass.
std::vector<TensorSpec> saved_specs(const RankShape& shape);
// What is recomputed instead, for one layer at a time (empty without recomputation).
std::vector<TensorSpec> recomputed_specs(const RankShape& shape);
// The gradients inside a layer that its weight gradients are computed from.
std::vector<TensorSpec> layer_gradient_specs(const RankShape& shape);

// With activation_offload: how many layers' activations are on the device: one in use, one being
// copied.
constexpr int64_t kOffloadSets = 2;
// With optimizer_offload: elements of a window, of which two are on the device. `owned` elements
// make at least four windows, so that copies and updates overlap.
int64_t offload_window(int64_t owned);

// The whole plan, in the order of allocation. Labels are unique.
std::vector<TensorSpec> memory_plan(const RankShape& shape);
// What is in (pinned) host memory instead: "act.0.0.3" for the saved activations of a layer as one
// piece, "master", "m", "v". Empty without offload.
std::vector<TensorSpec> host_plan(const RankShape& shape);

// Bytes that a process needs on a GPU beside its plan: for the driver and for libraries. `hopper`:
// whether the GPU has our own kernels for that generation.
size_t gpu_overhead(const RankShape& shape, bool repeatable, bool hopper);

struct MemoryTotals {
  size_t by_term[kMemoryTerms] = {};
  size_t total = 0;
};
MemoryTotals memory_totals(const std::vector<TensorSpec>& plan);

}  // namespace stretto
