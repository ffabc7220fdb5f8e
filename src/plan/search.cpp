#include "plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "account/flops.h"
#include "base/clock.h"
#include "base/error.h"

namespace stretto::plan {
namespace {

// Everything in a layout except its recomputation.
auto kin_of(const Candidate& c) {
  const Layout& l = c.layout;
  return std::make_tuple(l.tp, l.pp, l.dp, l.micro_batch, l.zero, l.zero_group, l.interleave,
                         static_cast<int>(l.schedule), l.sequence_parallel, l.partition.ends_count);
}

// Orders a tie by memory headroom. Layouts that differ only in recomputation are no tie (one does
// all that the other does, and more), so they stay together, fastest first.
void order_tie(std::vector<Candidate>& list, size_t begin, size_t end) {
  const auto first = list.begin() + static_cast<long>(begin);
  const auto last = list.begin() + static_cast<long>(end);
  std::stable_sort(first, last, [](const Candidate& a, const Candidate& b) {
    return kin_of(a) < kin_of(b);  // stable: within a kin the order of seconds stays
  });
  for (auto it = first; it != last; ++it) {
    const bool leads = it == first || kin_of(*(it - 1)) != kin_of(*it);
    it->leader_memory = leads ? it->memory.needed() : (it - 1)->leader_memory;
  }
  std::stable_sort(first, last, [](const Candidate& a, const Candidate& b) {
    return a.leader_memory < b.leader_memory;
  });
}

void sort_by_seconds(std::vector<Candidate>& list) {
  std::sort(list.begin(), list.end(), [](const Candidate& a, const Candidate& b) {
    if (a.estimate.seconds != b.estimate.seconds) return a.estimate.seconds < b.estimate.seconds;
    return std::make_tuple(kin_of(a), a.layout.recompute) <
           std::make_tuple(kin_of(b), b.layout.recompute);
  });
}

// Fastest first. Layouts that cannot be told apart are ordered by memory headroom, then by the
// layout itself.
void rank(std::vector<Candidate>& list, double width) {
  sort_by_seconds(list);
  size_t tie = 0;
  for (size_t begin = 0; begin < list.size(); ++tie) {
    size_t end = begin;
    const double limit = list[begin].estimate.seconds * (1 + width);
    while (end < list.size() && list[end].estimate.seconds <= limit) list[end++].tie = tie;
    order_tie(list, begin, end);
    begin = end;
  }
}

// Why the layout does not fit into memory, if so. `doubt`: by which factor the formula may
// overestimate the exact plan that is computed later.
std::optional<Reject> refusal(const MemoryEstimate& m, const Constraints& limits,
                              double doubt = 1) {
  const double share = m.needed() / (doubt * m.capacity);
  if (share > 1) return Reject::memory;
  if (share > kTight && !limits.allow_tight) return Reject::tight;
  return std::nullopt;
}

void set_interval(Candidate& c, const Cluster& cluster, const Stack& stack, const Workload& work) {
  const double half = interval_of(cluster, stack, work, c.layout.devices());
  c.low = c.estimate.seconds * (1 - half);
  c.high = c.estimate.seconds * (1 + half);
}

void set_seconds(Candidate& c, const Cluster& cluster, const Stack& stack, const Workload& work) {
  if (c.simulated) return;
  c.simulated = true;
  const double before = c.estimate.seconds;
  refine_to_rank(c.estimate, work, c.layout);
  set_interval(c, cluster, stack, work);
  const double change = before / c.estimate.seconds;
  c.tokens_per_second *= change;
  c.mfu *= change;
  c.hfu *= change;
}

// Our own runtime's memory can be computed exactly, but not quickly. The formula first removes
// layouts that are far too large.
constexpr double kFormulaDoubt = 1.25;

// Replaces formula seconds by simulated ones, in the order of the formula. Stops when the formula
// itself puts all remaining layouts behind the best simulated ones: 50, or as many as are shown. So
// a layout for which the formula is too optimistic cannot stay ahead of those behind it. `ranked`
// must be in the order of seconds.
void simulate_leaders(Plan& plan) {
  const size_t leaders = std::max<size_t>(50, plan.constraints.shown);
  const size_t most = std::max<size_t>(2000, leaders);
  const double tie = 1 + tie_width(plan.stack);  // ties may still change places
  std::vector<double> best;  // a heap of the fastest so far, the slowest of them on top
  size_t simulated = 0;
  for (Candidate& c : plan.ranked) {
    const bool full = best.size() == leaders;
    if (full && (c.estimate.seconds > best.front() * tie || simulated == most)) break;
    set_seconds(c, plan.cluster, plan.stack, plan.work);
    ++simulated;
    if (full && c.estimate.seconds >= best.front()) continue;
    if (full) {
      std::pop_heap(best.begin(), best.end());
      best.pop_back();
    }
    best.push_back(c.estimate.seconds);
    std::push_heap(best.begin(), best.end());
  }
}

// Computes the exact memory plan of as many layouts as are shown, and of all that are tied with
// them, because ties are ordered by memory. Removes those that do not fit. Returns false if nothing
// was left to compute.
bool refine_memory(Plan& plan) {
  std::vector<Candidate> kept;
  std::optional<Candidate> nearest;
  std::optional<size_t> tie;  // of the last one with an exact plan
  bool refined = false;
  for (Candidate& c : plan.ranked) {
    if (kept.size() < plan.constraints.shown || c.tie == tie) {
      refined = refined || !c.memory.listed;
      if (!c.memory.listed) c.memory = own_memory(plan.cluster, plan.stack, plan.work, c.layout);
      tie = c.tie;
    }
    if (const auto reason = refusal(c.memory, plan.constraints)) {
      plan.refuse(c.layout, *reason);
      if (!nearest || c.memory.needed() < nearest->memory.needed()) nearest = c;
      continue;
    }
    kept.push_back(std::move(c));
  }
  if (nearest) plan.nearest = nearest;
  plan.ranked = std::move(kept);
  return refined;
}

// Gives the best layouts what would be too slow for all of them: the simulated schedule, and for
// our own runtime the exact memory plan.
void refine_leaders(Plan& plan) {
  do {  // Exact memory can reorder ties or remove a leader, which brings up others.
    sort_by_seconds(plan.ranked);
    simulate_leaders(plan);
    rank(plan.ranked, tie_width(plan.stack));
  } while (plan.stack.own_runtime && refine_memory(plan));
}

}  // namespace

std::string name_of(Reject reason) {
  switch (reason) {
    case Reject::heads:
      return "heads not divisible by tp";
    case Reject::width:
      return "hidden or feed-forward size not divisible by tp";
    case Reject::link:
      return "tp beyond the link domain";
    case Reject::stages:
      return "more stages than layers";
    case Reject::batch:
      return "global batch not divisible by dp x micro-batch";
    case Reject::ramp:
      return "batches of the ramp-up not divisible by the layout";
    case Reject::schedule:
      return "interleaving does not divide layers or micro-batches";
    case Reject::kernels:
      return "more heads or sequences on a rank than a GPU takes";
    case Reject::sharding:
      return "ZeRO stage not possible with this layout";
    case Reject::memory:
      return "does not fit the memory";
    case Reject::tight:
      return fmt::format("above {} of the memory", tight_share());
  }
  return "?";
}

int64_t untold_size(const Cluster& cluster, const Stack& stack, const Workload& work) {
  if (std::ranges::count(stack.free, Constant::misaligned) > 0) return 0;
  const int64_t vocab = stack.own_runtime ? 0 : work.model.vocab;  // ours is padded
  for (const int64_t size : {vocab, work.model.hidden, work.model.ffn}) {
    if (size % cluster.alignment != 0) return size;
  }
  return 0;
}

double interval_of(const Cluster& cluster, const Stack& stack, const Workload& work,
                   int64_t devices) {
  const double told = interval_of(stack, devices);
  return untold_size(cluster, stack, work) == 0 ? told : std::max(told, 0.25);
}

double interval_of(const Stack& stack, int64_t devices) {
  // Held-out rows are off by three to six times as much as rows of the fit: a factor of five covers
  // nine of ten.
  double own = stack.fitted ? std::clamp(5 * stack.residual, 0.05, 0.25) : 0.25;
  // Runs on fewer devices do not tell anything about larger networks.
  const bool beyond = stack.fitted_devices > 0 && devices > stack.fitted_devices;
  if (stack.fitted && beyond) own = std::max(own, 0.2);
  const double n = std::log10(std::max<double>(1, static_cast<double>(devices)));
  double scale = 0;  // 10 % at 1,000, 20 % at 10,000, 35 % at 100,000
  if (n > 2.6) scale = 0.10 * std::min(1.0, (n - 2.6) / 0.4);
  if (n > 3) scale = 0.10 + 0.10 * std::min(1.0, n - 3);
  if (n > 4) scale = 0.20 + 0.15 * (n - 4);
  return std::min(0.9, std::sqrt(own * own + scale * scale));
}

double tie_width(const Stack& stack) {
  return stack.fitted ? std::clamp(stack.residual, 0.005, 0.03) : 0.01;
}

Candidate price(const Cluster& cluster, const Stack& stack, const Workload& work,
                const Layout& layout) {
  Candidate c;
  c.layout = layout;
  c.estimate = estimate(cluster, stack, work, layout);
  c.memory = estimate_memory(cluster, stack, work, layout);
  set_interval(c, cluster, stack, work);
  const double tokens = static_cast<double>(work.global_batch * work.seq_len);
  c.tokens_per_second = tokens / c.estimate.seconds;
  const FlopsPerToken flops =
      flops_per_token(Convention::mpt, work.model, work.seq_len, layout.recompute);
  // Ranks that take turns on the cores reach their peak one at a time.
  const int64_t at_once =
      cluster.time_shared ? std::min(layout.devices(), cluster.devices_per_node) : layout.devices();
  const double matrix = work.precision == Precision::amp_fp8 && cluster.matrix_flops_fp8 > 0
                            ? cluster.matrix_flops_fp8
                            : make_rates(cluster, stack, work.precision).matrix_peak;
  const double peak = static_cast<double>(at_once) * std::max(matrix, cluster.fma_flops);
  c.mfu = flops.model_total() * c.tokens_per_second / peak;
  c.hfu = flops.hardware_total() * c.tokens_per_second / peak;
  return c;
}

Plan make_plan(const Cluster& cluster, const Stack& stack, const Workload& work,
               const Constraints& constraints) {
  const double start = clock_seconds();
  check_devices(constraints);
  check_workload(work);
  check_abilities(stack, work, constraints);
  Plan plan;
  plan.cluster = cluster;
  plan.stack = stack;
  plan.work = work;
  plan.constraints = constraints;
  const std::vector<Layout> layouts = enumerate_layouts(cluster, stack, work, constraints, &plan);
  plan.considered += layouts.size();
  double nearest = 0;
  for (const Layout& layout : layouts) {
    const MemoryEstimate memory = estimate_memory(cluster, stack, work, layout);
    if (const auto reason = refusal(memory, constraints, stack.own_runtime ? kFormulaDoubt : 1)) {
      plan.refuse(layout, *reason);
      if (plan.ranked.empty() && (!plan.nearest || memory.needed() < nearest)) {
        nearest = memory.needed();
        plan.nearest = Candidate{};
        plan.nearest->layout = layout;
      }
      continue;
    }
    plan.ranked.push_back(price(cluster, stack, work, layout));
  }
  refine_leaders(plan);
  if (!plan.ranked.empty()) plan.nearest.reset();
  if (plan.nearest) {
    plan.nearest = price(cluster, stack, work, plan.nearest->layout);
    plan.nearest->memory = decisive_memory(cluster, stack, work, plan.nearest->layout);
  }
  plan.wall_seconds = clock_seconds() - start;
  return plan;
}

}  // namespace stretto::plan
