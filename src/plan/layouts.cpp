// Enumerates the layouts of a number of devices that the software can run, and counts the others by
// the reason why it cannot.
#include <algorithm>

#include "account/gpu_limits.h"
#include "plan/search.h"

namespace stretto::plan {
namespace {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d != n) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// Chunks must be of equal size, and micro-batches must come in whole rounds.
bool can_interleave(const Workload& work, const Layout& l) {
  return work.model.layers % (l.pp * l.interleave) == 0 && micro_batches(work, l) % l.pp == 0;
}

// Why the model or the batch cannot be divided in this way, if so. Sizes not chosen yet are 1.
std::optional<Reject> cut_refusal(const Cluster& cluster, const Stack& stack, const Workload& work,
                                  const Layout& l) {
  const ModelShape& m = work.model;
  if (m.heads % l.tp != 0) return Reject::heads;
  if (m.hidden % l.tp != 0 || m.ffn % l.tp != 0) return Reject::width;
  if (l.pp > m.layers) return Reject::stages;
  if (work.global_batch % (l.dp * l.micro_batch) != 0) return Reject::batch;
  if (l.interleave > 1 && !can_interleave(work, l)) return Reject::schedule;
  if (!stack.own_runtime) return std::nullopt;
  const int64_t round = l.dp * (l.interleave > 1 ? l.micro_batch * l.pp : 1);
  if (work.ramp_step % round != 0) return Reject::ramp;
  const bool too_many = m.heads / l.tp > kGpuHeads || l.micro_batch > kGpuSequences;
  if (cluster.has_gpus() && too_many) return Reject::kernels;
  return std::nullopt;
}

bool can_share_sequence(const Workload& work, const Layout& l) { return work.seq_len % l.tp == 0; }

class Enumerator {
 public:
  Enumerator(const Cluster& cluster, const Stack& stack, const Workload& work,
             const Constraints& limits, Plan* plan)
      : cluster_(cluster),
        stack_(stack),
        can_(abilities_for(stack, work)),
        work_(work),
        limits_(limits),
        plan_(plan) {}

  std::vector<Layout> run();

 private:
  template <typename T>
  static bool allowed(const std::optional<T>& wanted, const T& value) {
    return !wanted || *wanted == value;
  }
  void reject(const Layout& layout, Reject reason) {
    if (plan_ == nullptr) return;
    ++plan_->considered;
    plan_->refuse(layout, reason);
  }
  bool can_cut(const Layout& layout) {  // counts the refusal
    const std::optional<Reject> reason = cut_refusal(cluster_, stack_, work_, layout);
    if (reason) reject(layout, *reason);
    return !reason;
  }
  void pipelines(Layout layout);
  void micro_batch_sizes(Layout layout);
  void variants(Layout layout);
  void shardings(Layout layout);
  void recomputations(Layout layout);

  const Cluster& cluster_;
  const Stack& stack_;
  const Abilities can_;
  const Workload& work_;
  const Constraints& limits_;
  Plan* plan_;
  std::vector<Layout> out_;
};

std::vector<Layout> Enumerator::run() {
  for (int64_t tp : divisors(limits_.devices)) {
    if (!allowed(limits_.tp, tp) || (tp > 1 && !can_.tensor)) continue;
    Layout layout;
    layout.tp = tp;
    if (tp > cluster_.devices_per_node) {
      reject(layout, Reject::link);
    } else if (can_cut(layout)) {
      pipelines(layout);
    }
  }
  return std::move(out_);
}

void Enumerator::pipelines(Layout layout) {
  const int64_t rest = limits_.devices / layout.tp;
  for (int64_t pp : divisors(rest)) {
    layout.pp = pp;
    layout.dp = rest / pp;
    if (!allowed(limits_.pp, pp) || !allowed(limits_.dp, layout.dp)) continue;
    if (pp > 1 && !can_.pipeline) continue;
    if (can_cut(layout)) micro_batch_sizes(layout);
  }
}

// Larger micro-batches gain nothing: products are at full speed long before. One that was asked for
// is tried all the same.
void Enumerator::micro_batch_sizes(Layout layout) {
  constexpr int64_t kMostTokens = 1 << 19, kSequences = 128;
  const int64_t most =
      limits_.micro_batch.value_or(std::max(kSequences, kMostTokens / work_.seq_len));
  const int64_t per_replica = work_.global_batch / layout.dp;
  bool any = false;
  for (int64_t size : divisors(per_replica)) {
    if (!allowed(limits_.micro_batch, size) || size > most) continue;
    any = true;
    layout.micro_batch = size;
    variants(layout);
  }
  if (any) return;
  layout.micro_batch = most;
  reject(layout, Reject::batch);
}

void Enumerator::variants(Layout layout) {
  for (const int64_t v : kChunksPerStage) {
    if (!allowed(limits_.interleave, v)) continue;
    if (v > 1 && (layout.pp == 1 || !can_.interleave)) continue;
    layout.interleave = v;
    layout.schedule = v > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
    if (!can_cut(layout)) continue;
    layout.partition.ends_count = false;
    const std::vector<int64_t> without_embedding = stage_layers(work_.model, layout);
    for (bool embedding : {false, true}) {
      if (embedding && (layout.pp == 1 || v > 1 || work_.model.layers + 2 < 2 * layout.pp)) {
        continue;
      }
      layout.partition.ends_count = embedding;
      if (embedding && stage_layers(work_.model, layout) == without_embedding) continue;
      const PipelineSchedule plain = layout.schedule;
      if (layout.pp == 1 || allowed(limits_.schedule, plain)) shardings(layout);
      if (v > 1 || layout.pp == 1 || !can_.zero_bubble ||
          !allowed(limits_.schedule, PipelineSchedule::zero_bubble)) {
        continue;
      }
      layout.schedule = PipelineSchedule::zero_bubble;
      shardings(layout);
      layout.schedule = plain;
    }
  }
}

void Enumerator::shardings(Layout layout) {
  for (int zero : can_.zero) {
    if (!allowed(limits_.zero, zero)) continue;
    layout.zero = zero;
    if ((zero > 0 && layout.dp == 1 && stack_.sharding != Sharding::fsdp) ||
        (zero >= 2 && layout.pp > 1)) {
      reject(layout, Reject::sharding);
      continue;
    }
    layout.zero_group = 0;
    recomputations(layout);
    // One copy of the model per node: gathers stay inside nodes, and copies are summed once per
    // step.
    const int64_t group = std::min(layout.dp, cluster_.devices_per_node / layout.tp);
    if (zero == 0 || !can_.hybrid || group < 2 || group == layout.dp || layout.dp % group != 0) {
      continue;
    }
    layout.zero_group = group;
    recomputations(layout);
  }
}

void Enumerator::recomputations(Layout layout) {
  for (Checkpointing recompute : kCheckpointings) {
    if (!allowed(limits_.recompute, recompute) || !can_.checkpoints(recompute)) continue;
    layout.recompute = recompute;
    for (bool sequence : {false, true}) {
      if (!allowed(limits_.sequence_parallel, sequence) && layout.tp > 1) continue;
      if (sequence && (layout.tp == 1 || !can_.sequence || !can_share_sequence(work_, layout))) {
        continue;
      }
      layout.sequence_parallel = sequence;
      out_.push_back(layout);
    }
  }
}

}  // namespace

bool can_be_cut(const Cluster& cluster, const Stack& stack, const Workload& work, const Layout& l) {
  return !cut_refusal(cluster, stack, work, l) &&
         (!l.sequence_parallel || can_share_sequence(work, l));
}

std::vector<Layout> enumerate_layouts(const Cluster& cluster, const Stack& stack,
                                      const Workload& work, const Constraints& constraints,
                                      Plan* counts) {
  return Enumerator(cluster, stack, work, constraints, counts).run();
}

}  // namespace stretto::plan
