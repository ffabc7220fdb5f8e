#include "plan/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "account/flops.h"
#include "base/ceil_div.h"
#include "plan/softmax_rule.h"

namespace stretto::plan {
namespace {

double work_flops(const Workload& work) {
  return flops_per_token(Convention::mpt, work.model, work.seq_len, Checkpointing::none)
      .model_total();
}

// The seconds by which the search ranks a layout.
double seconds_of(const Cluster& cluster, const Stack& stack, const Workload& work,
                  const Layout& layout) {
  Estimate e = estimate(cluster, stack, work, layout);
  refine_to_rank(e, work, layout);
  return e.seconds;
}

class Adviser {
 public:
  Adviser(const Cluster& cluster, const Stack& stack, const Workload& work, const Candidate& c)
      : cluster_(cluster), stack_(stack), work_(work), candidate_(c) {}

  std::vector<Advice> run() {
    vocabulary();
    heads();
    hidden();
    softmax();
    rebalance();
    micro_batch();
    sequence();
    recompute();
    std::stable_sort(out_.begin(), out_.end(),
                     [](const Advice& a, const Advice& b) { return a.saving() > b.saving(); });
    return std::move(out_);
  }

 private:
  const Layout& layout() const { return candidate_.layout; }

  void consider_layout(const char* rule, const std::string& text, const Layout& changed) {
    if (!can_be_cut(cluster_, stack_, work_, changed)) return;
    const MemoryEstimate memory = decisive_memory(cluster_, stack_, work_, changed);
    if (memory.fit == plan::Fit::does_not_fit) return;
    const double seconds = seconds_of(cluster_, stack_, work_, changed);
    if (seconds > candidate_.estimate.seconds * (1 - tie_width(stack_))) return;  // a tie
    const double share = memory.needed() / memory.capacity;
    add(rule,
        share <= kTight ? text
                        : fmt::format("{} (tight: {:.0f} % of the memory)", text, 100 * share),
        seconds, false);
  }
  // A changed model does other work, so it is compared by seconds per FLOP of the model asked for.
  void consider_model(const char* rule, const std::string& text, const ModelShape& model,
                      bool same_work) {
    Workload changed = work_;
    changed.model = model;
    const double seconds = seconds_of(cluster_, stack_, changed, layout());
    const double scale = same_work ? 1.0 : work_flops(work_) / work_flops(changed);
    add(rule, text, seconds * scale, true);
  }
  void add(const char* rule, const std::string& text, double seconds, bool model) {
    const double before = candidate_.estimate.seconds;
    if (seconds < before * 0.999) out_.push_back({rule, text, before, seconds, model});
  }

  void vocabulary() {
    const int64_t step = 64 * layout().tp;
    const int64_t v = work_.model.vocab;
    if (v % step == 0) return;
    ModelShape m = work_.model;
    m.vocab = round_up(v, step);
    consider_model("pad-vocabulary", fmt::format("pad the vocabulary from {} to {}", v, m.vocab), m,
                   true);
  }
  void heads() {
    const ModelShape& m = work_.model;
    if (m.head_size() % cluster_.alignment == 0) return;
    ModelShape best = m;
    double best_seconds = 1e300;
    for (int64_t h = layout().tp; h <= 2 * m.heads; h += layout().tp) {
      if (2 * h < m.heads || m.hidden % h != 0 || (m.hidden / h) % cluster_.alignment != 0) {
        continue;
      }
      Workload changed = work_;
      changed.model.heads = h;
      const double seconds = seconds_of(cluster_, stack_, changed, layout());
      if (seconds < best_seconds) {
        best_seconds = seconds;
        best.heads = h;
      }
    }
    if (best.heads == m.heads) {
      aligned_width();
      return;
    }
    consider_model(
        "aligned-heads",
        fmt::format("{} heads of {} instead of {} of {}: head size a multiple of {}", best.heads,
                    best.head_size(), m.heads, m.head_size(), cluster_.alignment),
        best, true);
  }
  // For a hidden size that no number of heads divides into aligned heads: changes the hidden size.
  void aligned_width() {
    const ModelShape& m = work_.model;
    const int64_t step = m.heads * cluster_.alignment;
    ModelShape changed = m;
    changed.hidden = std::max(step, (m.hidden + step / 2) / step * step);
    changed.ffn = 4 * changed.hidden;
    consider_model("aligned-heads",
                   fmt::format("hidden {} instead of {}: {} heads of {}", changed.hidden, m.hidden,
                               m.heads, changed.head_size()),
                   changed, false);
  }
  void hidden() {
    const ModelShape& m = work_.model;
    const int64_t step = 64 * layout().tp;
    if (m.hidden % step == 0 || m.ffn != 4 * m.hidden) return;
    for (int64_t h : {m.hidden / step * step, (m.hidden / step + 1) * step}) {
      if (h < step || h % m.heads != 0) continue;
      ModelShape changed = m;
      changed.hidden = h;
      changed.ffn = 4 * h;
      consider_model("aligned-hidden",
                     fmt::format("hidden {} instead of {}: a multiple of 64 on each of {} ranks", h,
                                 m.hidden, layout().tp),
                     changed, false);
    }
  }
  void softmax() {
    const int64_t heads = work_.model.heads / layout().tp;
    if (softmax_is_fused(stack_, heads, layout().micro_batch)) return;
    Stack fused = stack_;
    fused.fused_softmax = FusedSoftmax::always;
    add("fused-softmax",
        fmt::format("(heads/tp) x micro-batch is {}: a multiple of {} keeps the fused softmax",
                    heads * layout().micro_batch, fused_softmax_block(stack_, heads)),
        seconds_of(cluster_, fused, work_, layout()), false);
  }
  void rebalance() {
    if (layout().pp == 1) return;
    if (!layout().partition.ends_count && layout().interleave == 1) {
      Layout changed = layout();
      changed.partition.ends_count = true;
      consider_layout("rebalance", "count embedding and head as one layer each when cutting stages",
                      changed);
    }
    if ((work_.model.layers + 2) % layout().pp != 0) {
      ModelShape m = work_.model;
      m.layers = (m.layers + 2) / layout().pp * layout().pp - 2;
      if (m.layers < layout().pp) return;
      Workload changed = work_;
      changed.model = m;
      Layout counted = layout();
      counted.partition.ends_count = true;
      counted.interleave = 1;
      counted.schedule = PipelineSchedule::one_f_one_b;
      const double scale = work_flops(work_) / work_flops(changed);
      add("rebalance",
          fmt::format("{} layers instead of {}: with embedding and head a multiple of {} stages",
                      m.layers, work_.model.layers, layout().pp),
          seconds_of(cluster_, stack_, changed, counted) * scale, true);
    }
  }
  void micro_batch() {
    for (int64_t size : {layout().micro_batch / 2, layout().micro_batch * 2}) {
      if (size < 1) continue;
      Layout changed = layout();
      changed.micro_batch = size;
      const bool smaller = size < layout().micro_batch;
      consider_layout("micro-batch",
                      smaller ? fmt::format("micro-batch {}: more micro-batches, less bubble", size)
                              : fmt::format("micro-batch {}: larger products", size),
                      changed);
    }
  }
  void sequence() {
    if (layout().tp == 1 || layout().sequence_parallel || !stack_.can.sequence) return;
    Layout changed = layout();
    changed.sequence_parallel = true;
    consider_layout("sequence-parallel", "share norms and residuals over the tensor ranks",
                    changed);
  }
  void recompute() {
    for (Checkpointing mode : kCheckpointings) {  // from the least recomputation up
      if (mode == layout().recompute) return;
      if (!stack_.can.checkpoints(mode)) continue;
      Layout changed = layout();
      changed.recompute = mode;
      consider_layout("recompute-less",
                      mode == Checkpointing::none
                          ? "no recomputation fits"
                          : fmt::format("{} instead of {} recomputation fits", name_of(mode),
                                        name_of(layout().recompute)),
                      changed);
    }
  }

  const Cluster& cluster_;
  const Stack& stack_;
  const Workload& work_;
  const Candidate& candidate_;
  std::vector<Advice> out_;
};

}  // namespace

std::vector<Advice> advice_for(const Cluster& cluster, const Stack& stack, const Workload& work,
                               const Candidate& candidate) {
  return Adviser(cluster, stack, work, candidate).run();
}

std::vector<Term> difference(const Estimate& first, const Estimate& second) {
  const std::vector<Term> paid = terms_of(first);
  std::vector<Term> out = terms_of(second);
  for (size_t i = 0; i < out.size(); ++i) out[i].seconds -= paid[i].seconds;
  std::stable_sort(out.begin(), out.end(), [](const Term& x, const Term& y) {
    return std::abs(x.seconds) > std::abs(y.seconds);
  });
  return out;
}

std::vector<Upset> upsets(const Cluster& cluster, const Stack& stack, const Workload& work,
                          const Layout& first, const Layout& second) {
  // The simulation's correction hardly depends on a single constant, so it is computed once.
  const auto added = [&](const Layout& l) {
    return seconds_of(cluster, stack, work, l) / estimate(cluster, stack, work, l).seconds;
  };
  const double for_first = added(first), for_second = added(second);
  const auto gap = [&](Constant id, double factor) {
    Stack changed = stack;
    changed.constants.set(id, stack.constants[id] * factor);
    return estimate(cluster, changed, work, second).seconds * for_second -
           estimate(cluster, changed, work, first).seconds * for_first;
  };
  std::vector<Upset> out;
  for (Constant id : stack.free) {
    for (double end : {4.0, 0.25}) {
      if (gap(id, end) >= 0) continue;
      double inside = 0, outside = std::log(end);
      for (int i = 0; i < 30; ++i) {
        const double middle = 0.5 * (inside + outside);
        (gap(id, std::exp(middle)) < 0 ? outside : inside) = middle;
      }
      out.push_back({id, std::exp(outside)});
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Upset& a, const Upset& b) {
    return std::abs(std::log(a.factor)) < std::abs(std::log(b.factor));
  });
  return out;
}

}  // namespace stretto::plan
