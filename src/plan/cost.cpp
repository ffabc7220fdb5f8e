#include "plan/cost.h"

#include <algorithm>
#include <cmath>

#include "plan/network.h"

namespace stretto::plan {
namespace {

struct Shares {  // one micro-batch on one stage, forward and backward
  LayerTime compute;
  double head = 0;
  double tp = 0;
  double pp = 0;
  double dp = 0;  // exposed part of per-micro-batch gathers (ZeRO-3)
  double hidden = 0;
  double accumulate = 0;
  double total() const { return compute.total() + head + tp + pp + dp + accumulate; }
};

double overlapped(double compute, double comm, double interference) {
  return std::max(compute, comm) + interference * std::min(compute, comm) - compute;
}

class Model {
 public:
  Model(const Cluster& cluster, const Stack& stack, const Workload& work, const Layout& layout)
      : cluster_(cluster),
        stack_(stack),
        work_(work),
        layout_(layout),
        rates_(make_rates(cluster, stack, work.precision)),
        c_(stack.constants) {
    layer_forward_ = layer_forward(rates_, stack, work, layout);
    layer_backward_ = layer_backward(rates_, stack, work, layout);
    const double h = static_cast<double>(work.model.hidden);
    const double f = static_cast<double>(work.model.ffn);
    const double t = static_cast<double>(layout.tp);
    layer_params_ = (4 * h * h + 2 * h * f + 4 * h + f) / t + 9 * h;
    embedding_params_ = static_cast<double>(work.model.vocab) * h / t;
    tokens_ = static_cast<double>(layout.micro_batch * work.seq_len);
    place_groups();
  }

  Estimate run() const;

 private:
  void place_groups();
  Shares stage(int64_t layers, bool first, bool last) const;
  double data_parallel_seconds(double params) const;
  double pipeline_transfer() const;
  double exposed_reduction(double seconds, double micro_batch, double* hidden) const;

  const Cluster& cluster_;
  const Stack& stack_;
  const Workload& work_;
  const Layout& layout_;
  Rates rates_;
  const Constants& c_;
  LayerTime layer_forward_, layer_backward_;
  double layer_params_ = 0, embedding_params_ = 0, tokens_ = 0;
  Group tp_, dp_;
};

// Ranks are placed tp innermost, then dp, then pp.
void Model::place_groups() {
  const int64_t per_node = cluster_.devices_per_node;
  tp_.ranks = layout_.tp;
  tp_.ranks_per_node = std::min(layout_.tp, per_node);
  tp_.rings_per_node = 1;
  dp_.ranks = layout_.dp;
  dp_.ranks_per_node = std::clamp<int64_t>(per_node / layout_.tp, 1, layout_.dp);
  dp_.rings_per_node = std::clamp<int64_t>(per_node / dp_.ranks_per_node, 1, per_node);
}

double Model::pipeline_transfer() const {
  if (layout_.pp == 1) return 0;
  const bool same_node = layout_.tp * layout_.dp < cluster_.devices_per_node;
  const double bytes = tokens_ * static_cast<double>(work_.model.hidden) * rates_.element;
  // Forward and backward; every device of the node sends its copy (or its share) at once.
  const double share = layout_.sequence_parallel ? 1.0 / static_cast<double>(layout_.tp) : 1.0;
  return 2 * c_[Constant::transfer] * static_cast<double>(layout_.interleave) *
         send_seconds(cluster_, stack_, same_node, bytes * share,
                      std::min(cluster_.devices_per_node, layout_.tp * layout_.dp));
}

Shares Model::stage(int64_t layers, bool first, bool last) const {
  Shares s;
  const double n = static_cast<double>(layers);
  LayerTime recompute;
  if (layout_.recompute == Checkpointing::full)
    recompute = layer_forward_ * c_[Constant::recompute];
  if (layout_.recompute == Checkpointing::selective) {
    // Norms and GELU again, no matrix product.
    recompute.passes = 0.5 * layer_forward_.passes;
    recompute.launches = 0.2 * layer_forward_.launches;
  }
  s.compute = layer_forward_ * n;
  s.compute += layer_backward_ * n;
  s.compute += recompute * n;

  const double reduce_bytes = tokens_ * static_cast<double>(work_.model.hidden) * rates_.element;
  const double reduce = all_reduce_seconds(cluster_, stack_, tp_, reduce_bytes);
  const double passes = layout_.recompute == Checkpointing::full ? 6 : 4;
  s.tp = n * passes * reduce;

  double params = n * layer_params_;
  if (last) {
    s.head = head_both(rates_, stack_, work_, layout_).total();
    s.tp += 2 * reduce;
    params += embedding_params_;
  }
  if (first) {
    s.head += 6 * reduce_bytes / rates_.stream;
    s.tp += reduce;
    if (layout_.pp > 1) params += embedding_params_;
  }
  s.accumulate = c_[Constant::accumulate] * params / rates_.stream;

  if (layout_.zero == 3) {
    const double gather =
        gather_seconds(cluster_, stack_, dp_, layer_params_ * stack_.gather_bytes);
    const double scatter =
        gather_seconds(cluster_, stack_, dp_, layer_params_ * stack_.reduce_bytes);
    const double forward = layer_forward_.total() + 2 * reduce;
    const double backward = layer_backward_.total() + recompute.total() + (passes - 2) * reduce;
    const double interference = c_[Constant::interference];
    const double exposed = n * (overlapped(forward, gather, interference) +
                                overlapped(backward, gather + scatter, interference));
    s.hidden = n * (2 * gather + scatter) - exposed;
    s.dp = exposed;
    if (first || last) {  // the root's own parameters are gathered once and scattered at the end
      s.dp += gather_seconds(cluster_, stack_, dp_,
                             embedding_params_ * (stack_.gather_bytes + stack_.reduce_bytes));
    }
  }
  s.pp = pipeline_transfer();
  return s;
}

double Model::data_parallel_seconds(double params) const {
  if (layout_.zero == 3) return 0;
  double seconds = 0;
  if (layout_.zero == 2) {
    seconds += gather_seconds(cluster_, stack_, dp_, params * stack_.reduce_bytes);
  } else {
    seconds += all_reduce_seconds(cluster_, stack_, dp_, params * stack_.reduce_bytes);
  }
  if (layout_.zero >= 1) {
    seconds += gather_seconds(cluster_, stack_, dp_, params * stack_.dp_param_bytes);
  }
  return seconds;
}

// With overlap, buckets are reduced while the last micro-batch's backward pass still runs.
double Model::exposed_reduction(double seconds, double micro_batch, double* hidden) const {
  if (!stack_.can.overlap_gradients || layout_.zero == 3) return seconds;
  const double window = micro_batch * 2 / 3;
  const double exposed = overlapped(window, seconds, c_[Constant::interference]);
  *hidden += std::max(0.0, seconds - exposed);
  return exposed;
}

Estimate Model::run() const {
  const std::vector<int64_t> layers = stage_layers(work_.model, layout_);
  const double m = static_cast<double>(micro_batches(work_, layout_));
  const double v = static_cast<double>(layout_.interleave);
  const size_t stages = layers.size();

  Estimate e;
  e.stage_seconds.reserve(stages);
  Shares sum;
  Shares s;
  bool middle_known = false;
  int64_t middle_layers = 0;
  double slowest = 0, total = 0;
  double largest_params = 0;
  for (size_t i = 0; i < stages; ++i) {
    const bool first = i == 0, last = i + 1 == stages;
    // Middle stages with as many layers cost the same: work one out.
    if (first || last || !middle_known || layers[i] != middle_layers) {
      s = stage(layers[i], first, last);
      middle_known = !first && !last;
      middle_layers = layers[i];
    }
    sum.compute += s.compute;
    sum.head += s.head;
    sum.tp += s.tp;
    sum.pp += s.pp;
    sum.dp += s.dp;
    sum.hidden += s.hidden;
    sum.accumulate += s.accumulate;
    const double seconds = s.total();
    e.stage_seconds.push_back(seconds);
    slowest = std::max(slowest, seconds);
    total += seconds;
    double params = static_cast<double>(layers[i]) * layer_params_;
    if (first || last) params += embedding_params_;
    largest_params = std::max(largest_params, params);
  }
  const double scale = m / static_cast<double>(stages);
  e.gemm = sum.compute.gemm * scale;
  e.attention = sum.compute.attention * scale;
  e.passes = (sum.compute.passes + sum.accumulate) * scale;
  e.launches = sum.compute.launches * scale;
  e.head = sum.head * scale;
  e.tp_exposed = sum.tp * scale;
  e.pp_exposed = sum.pp * scale;
  e.dp_exposed = sum.dp * scale;
  e.hidden_comm = sum.hidden * scale;
  e.imbalance = m * slowest - m * total / static_cast<double>(stages);
  e.bubble = pipeline_closed_form(e.stage_seconds, m, v) - m * slowest;
  const LayerTime both = [&] {
    LayerTime t = layer_forward_;
    t += layer_backward_;
    return t;
  }();
  e.forward_share = layer_forward_.total() / both.total();
  // Weight gradients, a third of the work, fill what the zero-bubble order would leave idle.
  if (layout_.schedule == PipelineSchedule::zero_bubble) e.bubble /= 3;

  e.dp_exposed += exposed_reduction(data_parallel_seconds(largest_params), slowest, &e.hidden_comm);
  if (layout_.pp > 1 && work_.model.tied_embedding) {  // first and last stage sum their copies
    e.dp_exposed +=
        send_seconds(cluster_, stack_, false, 2 * embedding_params_ * stack_.reduce_bytes,
                     std::min(cluster_.devices_per_node, layout_.tp * layout_.dp));
  }
  const double shard = layout_.zero >= 1 ? static_cast<double>(layout_.dp) : 1.0;
  e.optimizer = c_[Constant::optimizer] * largest_params / shard / rates_.stream;
  const double replicas =
      std::ceil(static_cast<double>(layout_.dp) / static_cast<double>(dp_.ranks_per_node));
  e.fixed = c_[Constant::fixed] + c_[Constant::sync] * ring_hops(replicas);
  const double nodes = static_cast<double>(cluster_.nodes_for(layout_.devices()));
  const double straggle = c_[Constant::spread] * std::sqrt(2 * std::log(std::max(1.0, nodes)));
  e.seconds = e.gemm + e.attention + e.passes + e.launches + e.head + e.tp_exposed + e.pp_exposed +
              e.dp_exposed + e.imbalance + e.bubble + e.optimizer + e.fixed;
  const double wait = e.seconds * straggle;
  e.fixed += wait;
  e.seconds += wait;
  return e;
}

}  // namespace

double pipeline_closed_form(const std::vector<double>& stages, double m, double v) {
  double total = 0, slowest = 0;
  for (double s : stages) {
    total += s;
    slowest = std::max(slowest, s);
  }
  return m * slowest + (total - slowest) / v;
}

Estimate estimate(const Cluster& cluster, const Stack& stack, const Workload& work,
                  const Layout& layout) {
  return Model(cluster, stack, work, layout).run();
}

}  // namespace stretto::plan
