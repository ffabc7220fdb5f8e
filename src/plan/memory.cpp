#include "plan/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "account/memory.h"

namespace stretto::plan {
namespace {

constexpr double kUsable = 0.9625;  // 77 of 80 GB: the most that the notes on BLOOM could use

struct Sizes {
  RankParameters params;
  double stream = 0, layer_kept = 0, layer_full = 0, logits = 0, fixed = 0;
};

double bytes_of(DType type) { return static_cast<double>(dtype_size(type)); }

struct BytesPerParameter {
  double weights, gradients, states;  // gradients: 0 where they count as weights
};

// Fitted for other software; for our own runtime given by the types of the precision.
BytesPerParameter bytes_per_parameter(const Stack& stack, const Workload& work) {
  const Constants& c = stack.constants;
  if (!stack.own_runtime) return {c[Constant::param_bytes], 0, c[Constant::state_bytes]};
  const PrecisionTypes types = types_of(work.precision, work.gradient_type);
  return {bytes_of(types.compute), bytes_of(types.gradient),
          work.optimizer_offload ? 0 : state_bytes(work)};
}

// Elements per token that a layer keeps for its backward pass without recomputation. Norms,
// residuals and dropout keep the whole hidden size, projections their tensor-parallel share.
Sizes sizes_of(const Stack& stack, const Workload& work, const Layout& layout) {
  const double h = static_cast<double>(work.model.hidden), f = static_cast<double>(work.model.ffn);
  const double t = static_cast<double>(layout.tp);
  const double tokens = static_cast<double>(layout.micro_batch * work.seq_len);
  const double element = bytes_of(types_of(work.precision).compute);
  Sizes s{RankParameters(work.model, layout.tp)};
  s.stream = tokens * h * element;
  const double whole = 5 * h / (layout.sequence_parallel ? t : 1);
  const double shared = (4 * h + 2 * f) / t;
  s.layer_full = tokens * element * (whole + shared);
  if (stack.attention == AttentionKernel::materialised) {
    const double scores = static_cast<double>(layout.micro_batch) *
                          static_cast<double>(work.model.heads) / t *
                          static_cast<double>(work.seq_len) * static_cast<double>(work.seq_len);
    s.layer_full += 2.5 * element * scores;  // scores, probabilities and a mask
  }
  s.layer_kept = s.layer_full;
  if (layout.recompute == Checkpointing::full) {
    s.layer_kept = s.stream / (layout.sequence_parallel ? t : 1);
  }
  if (layout.recompute == Checkpointing::gelu) s.layer_kept -= tokens * element * f / t;
  if (layout.recompute == Checkpointing::selective) {
    s.layer_kept =
        tokens * element * (3 * h / (layout.sequence_parallel ? t : 1) + (4 * h + f) / t);
  }
  // With zero bubble the inputs of weight gradients, including gradients of outputs, are kept
  // longer.
  if (layout.schedule == PipelineSchedule::zero_bubble) s.layer_kept += 0.6 * s.layer_full;
  // Logits in the compute type, their gradient, and an fp32 copy if the loss takes several kernels.
  const double loss = stack.fused_loss ? 0 : 4;
  s.logits = tokens * static_cast<double>(work.model.vocab) / t * (element + loss + element);
  if (stack.own_runtime) {
    const int64_t chunk = work.logits_chunk > 0 ? work.logits_chunk : kGpuLossChunkBytes;
    s.logits = std::min(s.logits, static_cast<double>(chunk));
  }
  return s;
}

// How many micro-batches of all of a rank's layers have live activations at once
// (docs/parallelism.md).
double in_flight_of(int64_t m, const Layout& layout, int64_t stage) {
  const int64_t p = layout.pp, v = layout.interleave;
  switch (layout.schedule) {
    case PipelineSchedule::gpipe:
      return static_cast<double>(m);
    case PipelineSchedule::one_f_one_b:
      return static_cast<double>(std::min(m, p - stage));
    case PipelineSchedule::eager_one_f_one_b:
      return static_cast<double>(std::min(m, 2 * (p - 1 - stage) + 1));
    case PipelineSchedule::zero_bubble:
      return static_cast<double>(std::min(m, p));
    case PipelineSchedule::interleaved:
      return static_cast<double>(std::min(m * v, 2 * (p - 1 - stage) + (v - 1) * p + 1)) /
             static_cast<double>(v);
  }
  return 1;
}

StageMemory stage_memory(const Stack& stack, const Workload& work, const Layout& layout,
                         const Sizes& s, int64_t layers, int64_t stage, double capacity) {
  const Constants& c = stack.constants;
  const bool first = stage == 0, last = stage + 1 == layout.pp;
  const double dp = static_cast<double>(layout.sharing_ranks());
  const double params = s.params.on_stage(layers, first, last);
  StageMemory m;
  const double weight_shard = layout.zero == 3 ? dp : 1.0;
  const double gradient_shard = layout.zero >= 2 ? dp : 1.0;
  const double state_shard = layout.zero >= 1 ? dp : 1.0;
  const BytesPerParameter bytes = bytes_per_parameter(stack, work);
  m.weights = (bytes.weights / weight_shard + bytes.gradients / gradient_shard) * params;
  m.states = bytes.states * params / state_shard;
  const double in_flight = in_flight_of(micro_batches(work, layout), layout, stage);
  const bool offloaded = stack.own_runtime && work.activation_offload;
  const double kept = offloaded ? 0 : static_cast<double>(layers) * in_flight * s.layer_kept;
  m.checkpoints = c[Constant::activation] * kept;
  m.working = c[Constant::workspace] * s.layer_full;
  if (layout.recompute == Checkpointing::none || layout.recompute == Checkpointing::gelu) {
    m.working = c[Constant::workspace] * 2 * s.stream;
  }
  if (layout.zero == 3) {
    // Two gathered layers (one is prefetched), the gradients of one layer, and the root's own.
    m.working += s.params.layer * (2 * stack.gather_bytes + stack.reduce_bytes);
    m.working += s.params.embedding * (stack.gather_bytes + stack.reduce_bytes);
  }
  if (last) m.logits = c[Constant::workspace] * s.logits;
  m.fixed = s.fixed;
  // A caching allocator keeps blocks that fit no later request while there is room, and frees them
  // when the card is full.
  m.slack = std::min(c[Constant::slack] * kept, std::max(0.0, kUsable * capacity - m.total()));
  return m;
}

}  // namespace

double state_bytes(const Workload& work) {
  const PrecisionTypes types = types_of(work.precision, work.gradient_type);
  return 2 * bytes_of(types.moment) + (types.master ? bytes_of(*types.master) : 0);
}

const char* name_of(Fit fit) {
  switch (fit) {
    case Fit::fits:
      return "fits";
    case Fit::tight:
      return "tight";
    case Fit::does_not_fit:
      return "does not fit";
  }
  return "?";
}

std::string tight_share() { return fmt::format("{:.0f} %", 100 * kTight); }

double MemoryEstimate::needed() const { return largest.total(); }

Fit fit_of(const MemoryEstimate& e) {
  const double share = e.needed() / e.capacity;
  return share <= kTight ? Fit::fits : share <= 1 ? Fit::tight : Fit::does_not_fit;
}

double MemoryEstimate::reserved() const {
  return std::min(std::max(held, largest.total()), kUsable * capacity);
}

void MemoryEstimate::add(int64_t rank, int64_t pp, const StageMemory& m) {
  const bool is_first = rank == 0, is_last = rank + 1 == pp;
  if (is_first) first = m;
  if (is_last) last = m;
  const bool between = !is_first && !is_last;
  if ((between && m.total() > middle.total()) || (is_last && pp <= 2)) middle = m;
  if (m.total() > largest.total()) largest = m;
}

MemoryEstimate estimate_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                               const Layout& layout) {
  Sizes s = sizes_of(stack, work, layout);
  s.fixed = fixed_bytes(cluster, stack, work, layout);
  const std::vector<int64_t> layers = stage_layers(work.model, layout);
  MemoryEstimate e;
  e.capacity = cluster.memory_bytes;
  for (int64_t i = 0; i < layout.pp; ++i) {
    const StageMemory m = stage_memory(stack, work, layout, s, layers[static_cast<size_t>(i)], i,
                                       cluster.memory_bytes);
    e.add(i, layout.pp, m);
    e.held = std::max(e.held, m.total() + m.slack);
  }
  e.fit = fit_of(e);
  return e;
}

MemoryEstimate decisive_memory(const Cluster& cluster, const Stack& stack, const Workload& work,
                               const Layout& layout) {
  return stack.own_runtime ? own_memory(cluster, stack, work, layout)
                           : estimate_memory(cluster, stack, work, layout);
}

}  // namespace stretto::plan
