// Our own runtime allocates exactly a list of tensors (account/memory.h). The planner adds up that
// list.
#include <algorithm>
#include <set>

#include "parallel/stage_shape.h"
#include "plan/memory.h"

namespace stretto::plan {
namespace {

RunShape run_of(const Workload& work, const Layout& layout, bool on_gpu) {
  RunShape run;
  run.rank.model = work.model;
  run.rank.model.positions = std::max(work.model.positions, work.seq_len);
  run.rank.micro_batch = layout.micro_batch;
  run.rank.seq_len = work.seq_len;
  run.rank.deterministic = work.deterministic;
  run.rank.precision = work.precision;
  run.rank.gradient_type = work.gradient_type;
  run.rank.reduce_type = work.reduce_type;
  run.rank.checkpointing = layout.recompute;
  run.rank.activation_offload = work.activation_offload;
  run.rank.optimizer_offload = work.optimizer_offload;
  run.topology = layout;
  run.global_batch = work.global_batch;
  run.on_gpu = on_gpu;
  run.logits_chunk = work.logits_chunk;
  return run;
}

StageMemory stage_of(const RunShape& run, int64_t stage, double fixed) {
  const MemoryTotals totals = memory_totals(memory_plan(stage_shape(run, stage)));
  const auto term = [&](MemoryTerm t) {
    return static_cast<double>(totals.by_term[static_cast<size_t>(t)]);
  };
  StageMemory m;
  m.weights = term(MemoryTerm::weights) + term(MemoryTerm::gradients);
  m.states = term(MemoryTerm::optimizer);
  m.checkpoints = term(MemoryTerm::activations);
  m.working = term(MemoryTerm::communication) + term(MemoryTerm::data);
  m.logits = term(MemoryTerm::logits);
  m.fixed = fixed;
  return m;
}

}  // namespace

double saved_layer_bytes(const Workload& work, const Layout& layout) {
  return static_cast<double>(
      memory_totals(saved_specs(any_rank(run_of(work, layout, true)))).total);
}

double fixed_bytes(const Cluster& cluster, const Stack& stack, const Workload& work,
                   const Layout& layout) {
  if (!stack.own_runtime || !cluster.has_gpus()) return stack.constants[Constant::memory_fixed];
  const RunShape run = run_of(work, layout, true);
  return static_cast<double>(gpu_overhead(any_rank(run), work.repeatable, cluster.is_hopper()));
}

StageMemory own_stage(const Cluster& cluster, const Stack& stack, const Workload& work,
                      const Layout& layout, int64_t stage) {
  return stage_of(run_of(work, layout, cluster.has_gpus()), stage,
                  fixed_bytes(cluster, stack, work, layout));
}

MemoryEstimate own_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                          const Layout& layout) {
  const RunShape run = run_of(work, layout, cluster.has_gpus());
  const double fixed = fixed_bytes(cluster, stack, work, layout);
  MemoryEstimate e;
  e.listed = true;
  e.exact = cluster.has_gpus();
  e.capacity = cluster.memory_bytes;
  // Middle ranks with the same numbers of layers differ only in the micro-batches in flight, of
  // which the first of them has most. So one per kind is enough.
  const std::vector<int64_t> layers = layout.partition.over(work.model.layers, layout.stages());
  std::set<std::vector<int64_t>> seen;
  for (int64_t rank = 0; rank < layout.pp; ++rank) {
    const bool first = rank == 0, last = rank + 1 == layout.pp;
    std::vector<int64_t> counts;
    for (int64_t c = 0; c < layout.interleave; ++c) {
      counts.push_back(layers[static_cast<size_t>(c * layout.pp + rank)]);
    }
    if (!first && !last && !seen.insert(std::move(counts)).second) continue;
    e.add(rank, layout.pp, stage_of(run, rank, fixed));
  }
  e.fit = fit_of(e);
  return e;
}

}  // namespace stretto::plan
