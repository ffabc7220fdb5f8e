// Bytes on one device: the calibrated model of other stacks, and our own runtime's exact plan.
#pragma once

#include <string>
#include <vector>

#include "plan/cluster.h"
#include "plan/stack.h"
#include "plan/workload.h"

namespace stretto::plan {

struct StageMemory {
  double weights = 0;      // weights and gradients every replica holds
  double states = 0;       // optimizer states and masters, after sharding
  double checkpoints = 0;  // activations kept for the micro-batches in flight
  double working = 0;      // one layer's working set, gathered weights
  double logits = 0;
  double fixed = 0;  // context, communication buffers
  double slack = 0;  // held by the allocator, given back before a run fails: not part of the total
  double total() const { return weights + states + checkpoints + working + logits + fixed; }
};

enum class Fit { fits, tight, does_not_fit };
const char* name_of(Fit fit);

struct MemoryEstimate {
  // middle: the fullest between the ends; with one or two ranks, where there is none, the last.
  StageMemory first, middle, last;
  StageMemory largest;
  double held = 0;  // the most that any stage needs and its allocator holds beside it
  double capacity = 0;
  Fit fit = Fit::fits;
  bool listed = false;  // our own runtime's list of tensors, not a calibrated formula
  // And nothing else: on CPUs the working memory of kernels comes on top, which the backend knows.
  bool exact = false;
  // What the run cannot do without: a caching allocator gives its slack back before it fails.
  double needed() const;
  // What a monitor would show: the slack included, but never more than the card has.
  double reserved() const;
  void add(int64_t rank, int64_t pp, const StageMemory& m);
};

// Above this share of the capacity a layout is tight: it may run, or fail after some hours.
constexpr double kTight = 0.92;
std::string tight_share();  // "92 %"

// Our own runtime: the list of tensors that its arena will hold. A few hundred microseconds.
// `own_stage`: of the ranks of one pipeline stage.
StageMemory own_stage(const Cluster& cluster, const Stack& stack, const Workload& work,
                      const Layout& layout, int64_t stage);
MemoryEstimate own_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                          const Layout& layout);

// What a process needs beside its tensors: on GPUs by our own runtime's count, else a constant.
double fixed_bytes(const Cluster& cluster, const Stack& stack, const Workload& work,
                   const Layout& layout);

// Of our own runtime: what one layer keeps of one micro-batch; optimizer state per parameter.
double saved_layer_bytes(const Workload& work, const Layout& layout);
double state_bytes(const Workload& work);

Fit fit_of(const MemoryEstimate& estimate);

MemoryEstimate estimate_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                               const Layout& layout);

// What decides: our own runtime's exact plan, the formula for other stacks.
MemoryEstimate decisive_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                               const Layout& layout);

}  // namespace stretto::plan
