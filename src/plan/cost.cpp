#include "plan/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/network.h"
#include "plan/offload.h"

namespace stretto::plan {
namespace {

struct Shares {  // seconds of one micro-batch on one stage, forward and backward
  LayerTime compute;
  double head = 0;
  double tp = 0;
  double pp = 0;
  double dp = 0;  // exposed part of per-micro-batch gathers (ZeRO-3)
  double hidden = 0;
  double accumulate = 0;
  double host = 0;  // exposed copies of offloaded activations
  double total() const { return compute.total() + head + tp + pp + dp + accumulate + host; }

  Shares& operator+=(const Shares& o) {
    compute += o.compute;
    head += o.head;
    tp += o.tp;
    pp += o.pp;
    dp += o.dp;
    hidden += o.hidden;
    accumulate += o.accumulate;
    host += o.host;
    return *this;
  }
};

struct Stages {
  Shares sum;                   // over all stages
  std::vector<double> seconds;  // by stage
  double largest_params = 0;
  double slowest() const { return *std::max_element(seconds.begin(), seconds.end()); }
};

double overlapped(double compute, double comm, double interference) {
  return std::max(compute, comm) + interference * std::min(compute, comm) - compute;
}

// How many gathers and scatters of the whole stream over the tensor ranks a layer does; a sum
// counts as two. Our own engine gathers the inputs of its weight gradients again under sequence
// parallelism, and its recomputation leaves out the last product of a layer (docs/parallelism.md).
struct TensorCalls {
  double forward = 4, backward = 4, recompute = 4;
};

TensorCalls tensor_calls(const Stack& stack, const Layout& layout) {
  if (!stack.own_runtime) return {};
  if (!layout.sequence_parallel) return {4, 4, 2};
  return {4, splits_backward(layout.schedule) ? 8.0 : 6.0, 3};
}

// Bytes per parameter that our own optimizer step moves: it reads and writes weights, masters and
// moments, and reads gradients twice, because the norm comes first.
double step_bytes(const PrecisionTypes& types) {
  const auto size = [](DType type) { return static_cast<double>(dtype_size(type)); };
  const double master = types.master ? size(*types.master) : 0;
  return 2 * (size(types.compute) + master + 2 * size(types.moment) + size(types.gradient));
}

class Model {
 public:
  Model(const Cluster& cluster, const Stack& stack, const Workload& work, const Layout& layout)
      : cluster_(cluster),
        stack_(stack),
        work_(work),
        layout_(layout),
        rates_(make_rates(cluster, stack, work.precision)),
        c_(stack.constants),
        params_(work.model, layout.tp) {
    layer_forward_ = layer_forward(rates_, stack, work, layout);
    layer_backward_ = layer_backward(rates_, stack, work, layout);
    if (layout.recompute == Checkpointing::full) layer_again_ = full_recomputation();
    // On a CPU, cores that exchange data cannot compute at the same time.
    interference_ = cluster.time_shared ? 1 : c_[Constant::interference];
    tokens_ = static_cast<double>(layout.micro_batch * work.seq_len);
    gather_bytes_ = stack.own_runtime ? rates_.element : stack.gather_bytes;
    reduce_bytes_ = stack.reduce_bytes;
    if (stack.own_runtime) {
      const PrecisionTypes types = types_of(work.precision, work.gradient_type);
      const size_t gradient = dtype_size(types.gradient);
      reduce_bytes_ = static_cast<double>(std::min(gradient, dtype_size(work.reduce_type)));
      // The constants were fitted with fp32, whose types take as many bytes as those of amp_bf16.
      const PrecisionTypes fitted = types_of(Precision::fp32);
      optimizer_share_ = step_bytes(types) / step_bytes(fitted);
      gradient_share_ =
          static_cast<double>(gradient) / static_cast<double>(dtype_size(fitted.gradient));
    }
    place_groups();
  }

  Estimate run() const;

 private:
  void place_groups();
  LayerTime full_recomputation() const;
  Shares stage(int64_t layers, bool first, bool last) const;
  Stages all_stages() const;
  Estimate micro_batch_terms(const Stages& stages) const;
  void add_iteration_terms(Estimate& e, const Stages& stages) const;
  double data_parallel_seconds(double params) const;
  double transfers_after(size_t stage) const;
  int64_t streams_between_nodes(int64_t stage) const;
  void share_cores(Estimate& e) const;
  double exposed_reduction(double seconds, double micro_batch, double* hidden) const;

  const Cluster& cluster_;
  const Stack& stack_;
  const Workload& work_;
  const Layout& layout_;
  Rates rates_;
  const Constants& c_;
  RankParameters params_;
  LayerTime layer_forward_, layer_backward_, layer_again_;
  double tokens_ = 0;
  double interference_ = 0;  // of overlapped compute and communication
  double gather_bytes_ = 2;  // per parameter
  double reduce_bytes_ = 2;
  // Relative to the bytes for which the constants were fitted.
  double optimizer_share_ = 1, gradient_share_ = 1;
  Group tp_, dp_;
  Group shard_;   // dp ranks that share one copy of the model: all of them, or a hybrid group
  Group copies_;  // ranks that own the same part of other copies
};

// Ranks are placed tp innermost, then dp, then pp.
void Model::place_groups() {
  const int64_t per_node = cluster_.time_shared
                               ? std::max(cluster_.devices_per_node, layout_.devices())
                               : cluster_.devices_per_node;
  tp_.ranks = layout_.tp;
  tp_.ranks_per_node = std::min(layout_.tp, per_node);
  tp_.rings_per_node = 1;
  dp_.ranks = layout_.dp;
  dp_.ranks_per_node = std::clamp<int64_t>(per_node / layout_.tp, 1, layout_.dp);
  dp_.rings_per_node = std::clamp<int64_t>(per_node / dp_.ranks_per_node, 1, per_node);
  shard_ = dp_;
  copies_ = {};
  if (layout_.zero_group == 0) return;
  shard_.ranks = layout_.zero_group;
  shard_.ranks_per_node = std::min(layout_.zero_group, dp_.ranks_per_node);
  shard_.rings_per_node = std::clamp<int64_t>(per_node / shard_.ranks_per_node, 1, per_node);
  copies_.ranks = layout_.dp / layout_.zero_group;
  copies_.ranks_per_node =
      std::clamp<int64_t>(dp_.ranks_per_node / layout_.zero_group, 1, copies_.ranks);
  copies_.rings_per_node = std::clamp<int64_t>(per_node / copies_.ranks_per_node, 1, per_node);
}

// How many ranks on one node send their stage's output to another node. The busiest node counts.
int64_t Model::streams_between_nodes(int64_t stage) const {
  if (cluster_.time_shared) return 0;
  const int64_t ranks = layout_.tp * layout_.dp, node = cluster_.devices_per_node;
  if (ranks >= node) return node;
  const int64_t next = (stage + 1) % layout_.pp;
  int64_t most = 0, here = 0, last_node = -1;
  for (int64_t i = 0; i < ranks; ++i) {
    const int64_t from = (stage * ranks + i) / node, to = (next * ranks + i) / node;
    if (from != last_node) here = 0;
    last_node = from;
    here += from != to ? 1 : 0;
    most = std::max(most, here);
  }
  return most;
}

// Seconds for what a stage and its successor send each other per micro-batch, forward and backward;
// every device sends its copy (or its share) at once. The last stage has a successor only where
// chunks go round; otherwise it waits for its predecessor.
double Model::transfers_after(size_t stage) const {
  if (layout_.pp == 1) return 0;
  const auto last = static_cast<size_t>(layout_.pp - 1);
  const size_t edge = stage == last && layout_.interleave == 1 ? stage - 1 : stage;
  const int64_t streams = streams_between_nodes(static_cast<int64_t>(edge));
  const double bytes = tokens_ * static_cast<double>(work_.model.hidden) * rates_.element;
  const double share = layout_.sequence_parallel ? 1.0 / static_cast<double>(layout_.tp) : 1.0;
  return 2 * c_[Constant::transfer] * static_cast<double>(layout_.interleave) *
         send_seconds(cluster_, stack_, streams == 0, bytes * share, streams);
}

LayerTime Model::full_recomputation() const {
  const bool wider = work_.precision == Precision::amp_fp8 && !stack_.recompute_in_fp8;
  const Rates rates = wider ? make_rates(cluster_, stack_, Precision::amp_bf16) : rates_;
  LayerTime t = wider ? layer_forward(rates, stack_, work_, layout_) : layer_forward_;
  if (stack_.recompute_stops_early) t.gemm -= down_product_seconds(rates, work_, layout_);
  return t * c_[Constant::recompute];
}

Shares Model::stage(int64_t layers, bool first, bool last) const {
  Shares s;
  const double n = static_cast<double>(layers);
  LayerTime recompute = layer_again_;
  if (layout_.recompute == Checkpointing::gelu || layout_.recompute == Checkpointing::selective) {
    // The gradient of GELU reads GELU's input anyway and can write its output in the same pass.
    recompute.passes = gelu_write_seconds(rates_, work_, layout_);
  }
  if (layout_.recompute == Checkpointing::selective) {
    // The norms are computed again, but no matrix product.
    recompute.passes += 0.5 * layer_forward_.passes;
    recompute.launches = 0.2 * layer_forward_.launches;
  }
  const double times = recomputations(splits_backward(layout_.schedule));
  recompute = recompute * times;
  s.compute = layer_forward_ * n;
  s.compute += layer_backward_ * n;
  s.compute += recompute * n;

  const double reduce_bytes = tokens_ * static_cast<double>(work_.model.hidden) * rates_.element;
  const double call = gather_seconds(cluster_, stack_, tp_, reduce_bytes);
  const TensorCalls calls = tensor_calls(stack_, layout_);
  const double again = layout_.recompute == Checkpointing::full ? times * calls.recompute : 0;
  s.tp = n * (calls.forward + calls.backward + again) * call;

  if (last) {
    s.head = head_both(rates_, stack_, work_, layout_).total();
    s.tp += (stack_.own_runtime ? 2 : 4) * call;
  }
  if (first) {
    s.head += 6 * reduce_bytes / rates_.stream;
    s.tp += 2 * call;
  }
  s.accumulate = gradient_share_ * c_[Constant::accumulate] *
                 params_.on_stage(layers, first, last) / rates_.stream;

  // Seconds of one layer, including its collectives over tensor ranks.
  const double forward = layer_forward_.total() + calls.forward * call;
  const double backward =
      layer_backward_.total() + recompute.total() + (calls.backward + again) * call;
  double forward_wait = 0, backward_wait = 0, traffic = 0;
  if (layout_.zero == 3) {
    const double gather = gather_seconds(cluster_, stack_, shard_, params_.layer * gather_bytes_);
    const double scatter = gather_seconds(cluster_, stack_, shard_, params_.layer * reduce_bytes_);
    forward_wait = overlapped(forward, gather, interference_);
    backward_wait = overlapped(backward, gather + scatter, interference_);
    traffic = 2 * gather + scatter;
  } else if (layout_.zero == 2) {  // every micro-batch's gradients go to their owners
    traffic = gather_seconds(cluster_, stack_, shard_, params_.layer * reduce_bytes_);
    backward_wait = overlapped(backward, traffic, interference_);
  }
  s.dp = n * (forward_wait + backward_wait);
  s.hidden = n * traffic - s.dp;
  if (layout_.zero >= 2 && (first || last)) {
    // The parameters outside the layers are gathered once (ZeRO-3) and scattered at the end.
    const double bytes = reduce_bytes_ + (layout_.zero == 3 ? gather_bytes_ : 0);
    s.dp += gather_seconds(cluster_, stack_, shard_, params_.embedding * bytes);
  }
  if (stack_.own_runtime) {
    s.host =
        activation_copies(cluster_, work_, layout_,
                          {layers, forward + forward_wait, backward + backward_wait, s.head, last});
  }
  return s;
}

double Model::data_parallel_seconds(double params) const {
  const double gradients = params * reduce_bytes_;
  // Hybrid sharding: each rank's own part is summed over the copies, once per step.
  double seconds = all_reduce_seconds(cluster_, stack_, copies_,
                                      gradients / static_cast<double>(layout_.sharing_ranks()));
  if (layout_.zero == 3) return seconds;
  if (layout_.zero == 0 || !stack_.own_runtime) {
    seconds += all_reduce_seconds(cluster_, stack_, dp_, gradients);
  } else if (layout_.zero == 1) {
    seconds += gather_seconds(cluster_, stack_, shard_, gradients);
  }
  if (layout_.zero >= 1) {
    const double bytes = stack_.own_runtime ? gather_bytes_ : stack_.dp_param_bytes;
    seconds += gather_seconds(cluster_, stack_, shard_, params * bytes);
  }
  return seconds;
}

// The exposed part of the reduction. With overlap, units are reduced while the backward pass of the
// last micro-batch is still running.
double Model::exposed_reduction(double seconds, double micro_batch, double* hidden) const {
  if (!stack_.can.overlap_gradients || seconds == 0) return seconds;
  const double window = micro_batch * 2 / 3;
  const double exposed = overlapped(window, seconds, interference_);
  *hidden += std::max(0.0, seconds - exposed);
  return exposed;
}

// On one machine with more ranks than devices, ranks take turns: all their work passes through the
// devices there are. While a rank waits in the pipeline, the others use the device.
void Model::share_cores(Estimate& e) const {
  const double turns =
      static_cast<double>(layout_.devices()) / static_cast<double>(cluster_.devices_per_node);
  if (!cluster_.time_shared || turns <= 1) return;
  const double work = e.gemm + e.attention + e.passes + e.launches + e.head + e.tp_exposed +
                      e.pp_exposed + e.dp_exposed + e.optimizer;
  e.core_wait = std::max(0.0, work * (turns - 1) - e.bubble - e.imbalance);
}

Stages Model::all_stages() const {
  const std::vector<int64_t> layers = stage_layers(work_.model, layout_);
  Stages out;
  out.seconds.reserve(layers.size());
  Shares s;
  int64_t known = -1;  // `s` is that of a middle stage with so many layers; -1: of no such stage
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool first = i == 0, last = i + 1 == layers.size();
    if (first || last || layers[i] != known) s = stage(layers[i], first, last);
    known = first || last ? -1 : layers[i];
    s.pp = transfers_after(i);
    out.sum += s;
    out.seconds.push_back(s.total());
    out.largest_params = std::max(out.largest_params, params_.on_stage(layers[i], first, last));
  }
  return out;
}

// What every micro-batch costs, including the bubble and the imbalance of the pipeline.
Estimate Model::micro_batch_terms(const Stages& stages) const {
  const double m = static_cast<double>(micro_batches(work_, layout_));
  const double count = static_cast<double>(stages.seconds.size());
  const double scale = m / count;
  const Shares& sum = stages.sum;
  Estimate e;
  e.stage_seconds = stages.seconds;
  e.gemm = sum.compute.gemm * scale;
  e.attention = sum.compute.attention * scale;
  e.passes = (sum.compute.passes + sum.accumulate) * scale;
  e.launches = sum.compute.launches * scale;
  e.head = sum.head * scale;
  e.tp_exposed = sum.tp * scale;
  e.pp_exposed = sum.pp * scale;
  e.dp_exposed = sum.dp * scale;
  e.hidden_comm = sum.hidden * scale;
  e.host_link = sum.host * scale;
  const double slowest = stages.slowest();
  const double total = std::accumulate(stages.seconds.begin(), stages.seconds.end(), 0.0);
  e.imbalance = m * slowest - m * total / count;
  e.bubble = pipeline_closed_form(e.stage_seconds, m, static_cast<double>(layout_.interleave)) -
             m * slowest;
  // Weight gradients are a third of the work; in the zero-bubble order they fill most of the idle
  // time.
  if (layout_.schedule == PipelineSchedule::zero_bubble) e.bubble /= 3;
  LayerTime both = layer_forward_;
  both += layer_backward_;
  e.forward_share = layer_forward_.total() / both.total();
  return e;
}

// What an iteration costs once: sums over replicas, the optimizer, waiting for slow nodes.
void Model::add_iteration_terms(Estimate& e, const Stages& stages) const {
  e.dp_exposed += exposed_reduction(data_parallel_seconds(stages.largest_params), stages.slowest(),
                                    &e.hidden_comm);
  if (layout_.pp > 1 && work_.model.tied_embedding) {  // first and last stage sum their copies
    const bool same_node = cluster_.time_shared || layout_.devices() <= cluster_.devices_per_node;
    e.dp_exposed += send_seconds(cluster_, stack_, same_node, 2 * params_.embedding * reduce_bytes_,
                                 std::min(cluster_.devices_per_node, layout_.tp * layout_.dp));
  }
  const double shard = layout_.zero >= 1 ? static_cast<double>(layout_.sharing_ranks()) : 1.0;
  e.optimizer =
      optimizer_share_ * c_[Constant::optimizer] * stages.largest_params / shard / rates_.stream;
  if (stack_.own_runtime) {
    e.host_link += state_copies(cluster_, work_, stages.largest_params / shard, e.optimizer);
  }
  const double replicas =
      std::ceil(static_cast<double>(layout_.dp) / static_cast<double>(dp_.ranks_per_node));
  e.fixed = c_[Constant::fixed] + c_[Constant::sync] * ring_hops(replicas);
}

Estimate Model::run() const {
  const Stages stages = all_stages();
  Estimate e = micro_batch_terms(stages);
  add_iteration_terms(e, stages);
  share_cores(e);
  e.seconds = e.gemm + e.attention + e.passes + e.launches + e.head + e.tp_exposed + e.pp_exposed +
              e.dp_exposed + e.imbalance + e.bubble + e.optimizer + e.host_link + e.core_wait +
              e.fixed;
  const double wait =
      e.seconds * straggler_wait(c_[Constant::spread], cluster_.nodes_for(layout_.devices()));
  e.fixed += wait;
  e.seconds += wait;
  return e;
}

}  // namespace

std::vector<Term> terms_of(const Estimate& e) {
  return {{"matrix products", e.gemm},
          {"attention", e.attention},
          {"memory-bound passes", e.passes},
          {"launch gaps", e.launches},
          {"head and loss", e.head},
          {"tensor-parallel traffic", e.tp_exposed},
          {"pipeline traffic", e.pp_exposed},
          {"data-parallel traffic", e.dp_exposed},
          {"bubble", e.bubble},
          {"imbalance", e.imbalance},
          {"optimizer", e.optimizer},
          {"link to the host", e.host_link},
          {"waiting for a core", e.core_wait},
          {"fixed, waiting", e.fixed}};
}

double straggler_wait(double spread, int64_t nodes) {
  return spread * std::sqrt(2 * std::log(std::max(1.0, static_cast<double>(nodes))));
}

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
