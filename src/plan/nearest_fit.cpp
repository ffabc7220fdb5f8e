// The smallest change that makes a layout fit into memory.
#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "plan/advice.h"

namespace stretto::plan {
namespace {

// The work with options of our own runtime that save memory on the same devices, and these options
// as words of a configuration.
std::vector<std::pair<std::string, Workload>> lighter_workloads(const Cluster& cluster,
                                                                const Stack& stack,
                                                                const Workload& work) {
  if (!stack.own_runtime) return {};
  const bool narrow = !work.deterministic &&
                      types_of(work.precision, work.gradient_type).gradient == DType::f32 &&
                      types_of(work.precision).compute == DType::bf16;
  std::vector<std::pair<std::string, Workload>> out;
  if (work.repeatable && !work.deterministic && cluster.has_gpus()) {
    out.emplace_back("repeatable=false", work);
    out.back().second.repeatable = false;
  }
  for (const auto& [gradients, optimizer] : {std::pair(true, false), {false, true}, {true, true}}) {
    const bool offloads = !work.optimizer_offload && cluster.host_bandwidth > 0;
    if ((gradients && !narrow) || (optimizer && !offloads)) continue;
    Workload w = work;
    if (gradients) w.gradient_type = DType::bf16;
    if (optimizer) w.optimizer_offload = true;
    out.emplace_back(fmt::format("{}{}{}", gradients ? "gradient_dtype=bf16" : "",
                                 gradients && optimizer ? " and " : "",
                                 optimizer ? "optimizer_offload=true" : ""),
                     w);
  }
  return out;
}

// Small changes are tried first. The first that fits is the answer, else the first that nearly
// fits.
class FitSearch {
 public:
  FitSearch(const Cluster& cluster, const Stack& stack, const Workload& work, const Layout& layout)
      : cluster_(cluster), stack_(stack), work_(work), layout_(layout) {}

  std::optional<FitChange> run() {
    recompute_more();
    smaller_micro_batch();
    deeper_sharding();
    const Layout least = all_together();
    if (!cluster_.time_shared) more_devices(least);  // its ranks share the devices there are
    return found_ ? found_ : tight_;
  }

 private:
  void consider(const Workload& work, const Layout& layout, const std::string& text) {
    if (found_ || !can_be_cut(cluster_, stack_, work, layout)) return;
    const plan::Fit fit = decisive_memory(cluster_, stack_, work, layout).fit;
    if (fit == plan::Fit::fits) found_ = FitChange{text, layout};
    if (fit == plan::Fit::tight && !tight_) tight_ = FitChange{text + ", and --tight", layout};
  }

  void recompute_more() {
    Layout l = layout_;
    for (Checkpointing mode : kCheckpointings) {
      if (mode <= layout_.recompute || !stack_.can.checkpoints(mode)) continue;
      l.recompute = mode;
      consider(work_, l, fmt::format("{} recomputation", name_of(mode)));
    }
  }

  void smaller_micro_batch() {
    Layout l = layout_;
    for (int64_t size = l.micro_batch / 2; size >= 1; size /= 2) {
      l.micro_batch = size;
      consider(work_, l, fmt::format("micro-batch {} instead of {}", size, layout_.micro_batch));
    }
  }

  void deeper_sharding() {
    for (int zero : stack_.can.zero) {
      if (zero <= layout_.zero || layout_.dp == 1 || (zero >= 2 && layout_.pp > 1)) continue;
      Layout l = layout_;
      l.zero = zero;
      consider(work_, l, fmt::format("ZeRO stage {} instead of {}", zero, layout_.zero));
    }
  }

  // Returns the layout that needs least memory on these devices.
  Layout all_together() {
    Layout l = layout_;
    l.recompute = Checkpointing::full;
    l.micro_batch = 1;
    l.zero = layout_.pp == 1 ? stack_.can.zero.back() : layout_.zero;
    consider(work_, l, "full recomputation, micro-batch 1 and the deepest sharding together");
    for (const auto& [words, work] : lighter_workloads(cluster_, stack_, work_)) {
      consider(work, l, fmt::format("{}, full recomputation and micro-batch 1", words));
    }
    return l;
  }

  // More devices, which cut matrices, add stages or add replicas.
  void more_devices(const Layout& least) {
    for (int64_t more = 2; more <= 4096 && !found_ && !tight_; more *= 2) {
      for (int64_t parts = 1; parts <= more && can_cut_matrices(parts); parts *= 2) {
        spread(least, parts, more / parts);
      }
    }
  }

  bool can_cut_matrices(int64_t parts) const {
    const int64_t tp = layout_.tp * parts;
    return parts == 1 ||
           (stack_.can.tensor && tp <= cluster_.devices_per_node && work_.model.heads % tp == 0);
  }

  // `parts` times as many tensor ranks, and `rest` times as many stages or else replicas.
  void spread(const Layout& least, int64_t parts, int64_t rest) {
    Layout wider = least;
    wider.tp = layout_.tp * parts;
    if (stack_.can.pipeline && layout_.pp * rest <= work_.model.layers) {
      wider.pp = layout_.pp * rest;
    } else {
      wider.dp = layout_.dp * rest;
    }
    if (wider.pp > 1) wider.zero = std::min(wider.zero, wider.dp > 1 ? 1 : 0);
    Workload work = work_;  // each replica needs a sequence to work on
    work.global_batch = round_up(work_.global_batch, wider.dp);
    const std::string batch = work.global_batch == work_.global_batch
                                  ? ""
                                  : fmt::format(" and --global-batch {}", work.global_batch);
    consider(work, wider, fmt::format("{} devices{}: {}", wider.devices(), batch, describe(wider)));
  }

  const Cluster& cluster_;
  const Stack& stack_;
  const Workload& work_;
  const Layout& layout_;
  std::optional<FitChange> found_, tight_;
};

}  // namespace

std::optional<FitChange> nearest_fit(const Cluster& cluster, const Stack& stack,
                                     const Workload& work, const Layout& layout) {
  return FitSearch(cluster, stack, work, layout).run();
}

}  // namespace stretto::plan
