// Our own runtime takes its memory from a plan that is a list of tensors (account/memory.h): the
// planner adds up the same list.
#include <algorithm>
#include <set>

#include "account/memory.h"
#include "account/stages.h"
#include "parallel/schedule.h"
#include "plan/memory.h"

namespace stretto::plan {
namespace {

RankShape shape_of(const Workload& work, const Layout& layout, bool on_gpu) {
  RankShape s;
  s.model = work.model;
  s.model.positions = std::max(s.model.positions, work.seq_len);
  s.micro_batch = layout.micro_batch;
  s.seq_len = work.seq_len;
  s.tp = layout.tp;
  s.dp = layout.sharing_ranks();
  s.zero = layout.zero;
  s.sequence_parallel = layout.sequence_parallel;
  s.precision = work.precision;
  s.checkpointing = layout.recompute;
  s.accumulation = micro_batches(work, layout);
  s.split_backward = layout.schedule == PipelineSchedule::zero_bubble;
  s.gradient_type = work.gradient_type;
  s.reduce_type = work.reduce_type;
  s.activation_offload = work.activation_offload;
  s.optimizer_offload = work.optimizer_offload;
  if (on_gpu) s.loss_chunk_bytes = kGpuLossChunkBytes;
  if (work.logits_chunk > 0) s.loss_chunk_bytes = work.logits_chunk;
  return s;
}

std::vector<int64_t> in_flight_of(const Workload& work, const Layout& layout, int64_t rank) {
  const int64_t m = micro_batches(work, layout);
  if (layout.schedule == PipelineSchedule::one_f_one_b) return {std::min(m, layout.pp - rank)};
  if (layout.schedule == PipelineSchedule::gpipe) return {m};
  // Steady state is reached well before this many micro-batches.
  const int64_t few = std::min(m, 4 * layout.pp);
  const ScheduleCheck check =
      check_schedule(make_schedule(layout.schedule, static_cast<int>(layout.pp),
                                   static_cast<int>(few), static_cast<int>(layout.interleave)));
  std::vector<int64_t> out;
  for (int peak : check.peak[static_cast<size_t>(rank)]) out.push_back(std::max(1, peak));
  return out;
}

// Layers of the virtual stages.
std::vector<int64_t> partition_of(const Workload& work, const Layout& layout) {
  return even_partition(work.model.layers, layout.pp * layout.interleave, layout.embedding_counts);
}

StageMemory stage_of(RankShape shape, const Workload& work, const Layout& layout, int64_t rank,
                     double fixed) {
  shape.first_stage = rank == 0;
  shape.last_stage = rank + 1 == layout.pp;
  shape.chunks = stage_chunks(partition_of(work, layout), layout.pp, rank);
  shape.in_flight = in_flight_of(work, layout, rank);
  const MemoryTotals totals = memory_totals(memory_plan(shape));
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
  return static_cast<double>(memory_totals(saved_specs(shape_of(work, layout, true))).total);
}

double fixed_bytes(const Cluster& cluster, const Stack& stack, const Workload& work,
                   const Layout& layout) {
  if (!stack.own_runtime || !cluster.has_gpus()) return stack.constants[Constant::memory_fixed];
  const RankShape shape = shape_of(work, layout, true);
  return static_cast<double>(gpu_overhead(shape, work.repeatable, cluster.is_hopper()));
}

MemoryEstimate own_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                          const Layout& layout) {
  const RankShape shape = shape_of(work, layout, cluster.has_gpus());
  const double fixed = fixed_bytes(cluster, stack, work, layout);
  MemoryEstimate e;
  e.exact = true;
  e.capacity = cluster.memory_bytes;
  // Ranks between the ends with the same layers differ only in what is in flight: most on the
  // first.
  const std::vector<int64_t> layers = partition_of(work, layout);
  std::set<std::vector<int64_t>> seen;
  for (int64_t rank = 0; rank < layout.pp; ++rank) {
    const bool first = rank == 0, last = rank + 1 == layout.pp;
    std::vector<int64_t> counts;
    for (int64_t c = 0; c < layout.interleave; ++c) {
      counts.push_back(layers[static_cast<size_t>(c * layout.pp + rank)]);
    }
    if (!first && !last && !seen.insert(std::move(counts)).second) continue;
    e.add(rank, layout.pp, stage_of(shape, work, layout, rank, fixed));
  }
  e.fit = fit_of(e);
  return e;
}

}  // namespace stretto::plan
