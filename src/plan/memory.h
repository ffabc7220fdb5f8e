// Bytes on one device: a calibrated formula for other software, and the exact plan of our own
// runtime.
#pragma once

#include <string>
#include <vector>

#include "plan/cluster.h"
#include "plan/stack.h"
#include "plan/workload.h"

namespace stretto::plan {

struct StageMemory {
  double weights = 0;      // weights and gradients that every replica holds
  double states = 0;       // optimizer states and masters, after sharding
  double checkpoints = 0;  // activations kept for the micro-batches in flight
  double working = 0;      // one layer's working set, gathered weights
  double logits = 0;
  double fixed = 0;  // context, communication buffers
  double slack = 0;  // kept by the allocator but freed before a run fails, so not part of the total
  double total() const { return weights + states + checkpoints + working + logits + fixed; }
};

enum class Fit { fits, tight, does_not_fit };
const char* name_of(Fit fit);

struct MemoryEstimate {
  // `middle` is the largest stage between the first and the last; with one or two stages it is the
  // last.
  StageMemory first, middle, last;
  StageMemory largest;
  double held = 0;  // the most that any stage needs, with what its allocator keeps
  double capacity = 0;
  Fit fit = Fit::fits;
  // Summed from our own runtime's list of tensors, not from a calibrated formula.
  bool listed = false;
  // The list is complete. On CPUs it is not: kernels need working memory that only the backend
  // knows.
  bool exact = false;
  // What the run needs at least: without slack, which a caching allocator frees before it fails.
  double needed() const;
  // What a monitor would show: with slack, but never more than the card has.
  double reserved() const;
  void add(int64_t rank, int64_t pp, const StageMemory& m);
};

// A layout that needs a larger share of the capacity is tight: it may run, or fail after some
// hours.
constexpr double kTight = 0.92;
std::string tight_share();  // "92 %"

// Our own runtime's memory: the list of tensors that its arena will hold. Takes a few hundred
// microseconds. `own_stage` is for the ranks of one pipeline stage.
StageMemory own_stage(const Cluster& cluster, const Stack& stack, const Workload& work,
                      const Layout& layout, int64_t stage);
MemoryEstimate own_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                          const Layout& layout);

// What a process needs beside its tensors: on GPUs with our own runtime counted, else a constant.
double fixed_bytes(const Cluster& cluster, const Stack& stack, const Workload& work,
                   const Layout& layout);

// For our own runtime: what a layer keeps for one micro-batch, and optimizer state per parameter.
double saved_layer_bytes(const Workload& work, const Layout& layout);
double state_bytes(const Workload& work);

Fit fit_of(const MemoryEstimate& estimate);

MemoryEstimate estimate_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                               const Layout& layout);

// The estimate that decides whether a layout fits: the exact plan for our own runtime, else the
// formula.
MemoryEstimate decisive_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                               const Layout& layout);

}  // namespace stretto::plan
