#include "plan/forecast.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "account/peaks.h"
#include "config/rules.h"
#include "parallel/stage_shape.h"
#include "plan/local.h"
#include "plan/statistics.h"

namespace stretto::plan {
namespace {

// Relative half width of the interval once runs on the same machine have set the common factor.
constexpr double kAnchored = 0.12;

bool names(const std::string& gpu, const char* part) { return gpu.find(part) != std::string::npos; }

// The cluster file that describes this GPU; empty: none. Cards of the same name for another slot,
// and slices of a card, are slower than the files say, so they have none.
std::string cluster_of_gpu(std::string gpu) {
  if (is_gpu_slice(gpu)) return "";
  std::transform(gpu.begin(), gpu.end(), gpu.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* other : {"pcie", "nvl", "gh200"}) {
    if (names(gpu, other)) return "";
  }
  if (names(gpu, "h200")) return "h200";
  if (names(gpu, "h100")) return "h100";
  if (names(gpu, "gb200") || names(gpu, "b200")) return "gb200";
  if (names(gpu, "a100")) return names(gpu, "40g") ? "a100-40" : "a100-80";
  return "";
}

int64_t threads_of(const Config& config, int64_t cores) {
  if (config.threads > 0) return config.threads;
  return std::max<int64_t>(1, cores / std::max<int64_t>(1, config.world_size()));
}

std::optional<Cluster> cluster_for(const Config& config, const MachineFigures& machine) {
  if (!is_valid(config)) return std::nullopt;  // records are files and may hold anything
  if (!config.parallel.partition.listed.empty() || config.micro_batch < 1) return std::nullopt;
  if (config.device == Device::cpu) {
    return local_cluster(machine, threads_of(config, machine.cores), config.world_size());
  }
  const std::string name = cluster_of_gpu(machine.gpu);
  if (name.empty()) return std::nullopt;
  return find_cluster(name);
}

// The closed form is exact enough without a pipeline or with a simple schedule. Where the order of
// tasks matters, the schedule of the engine is simulated.
Candidate priced(const Cluster& cluster, const Stack& stack, const Config& config) {
  const Workload work = workload_of(config);
  Candidate c = price(cluster, stack, work, layout_of(config));
  if (c.layout.pp > 1 && !(cluster.time_shared && c.layout.devices() > cluster.devices_per_node)) {
    refine_by_simulation(c.estimate, work, c.layout);
  }
  return c;
}

std::optional<Candidate> price_run(const Config& config, const MachineFigures& machine,
                                   double* interval) {
  const std::optional<Cluster> cluster = cluster_for(config, machine);
  if (!cluster) return std::nullopt;
  const Stack stack = find_stack("stretto", *cluster);
  Candidate c = priced(*cluster, stack, config);
  *interval = interval_of(*cluster, stack, workload_of(config), c.layout.devices());
  return c;
}

}  // namespace

std::optional<Cluster> cluster_of_run(const Config& config, const std::string& machine) {
  const std::optional<MachineFigures> figures = read_machine(machine);
  return figures ? cluster_for(config, *figures) : std::nullopt;
}

Workload workload_of(const Config& config) {
  Workload w;
  w.model = config.model;
  w.seq_len = config.sequence_length();
  w.global_batch = config.global_batch;
  w.precision = config.precision;
  w.gradient_type = config.gradient_dtype;
  w.reduce_type = config.parallel.reduce_dtype;
  w.logits_chunk = config.logits_chunk;
  w.activation_offload = config.activation_offload;
  w.optimizer_offload = config.optimizer_offload;
  w.repeatable = config.repeatable;
  w.deterministic = config.deterministic;
  const RampUp& ramp = config.train.ramp_up;
  if (ramp.start > 0) w.ramp_step = std::gcd(ramp.start, ramp.increment);
  return w;
}

Precision default_precision(const Cluster& cluster) {
  return cluster.has_gpus() ? Precision::amp_bf16 : Precision::fp32;
}

Layout layout_of(const Config& config) {
  const ParallelConfig& p = config.parallel;
  Layout l;
  static_cast<Topology&>(l) = p;
  l.schedule = p.running_schedule();
  l.order = Topology().order;  // no prediction depends on it
  l.micro_batch = config.micro_batch;
  // On one replica ZeRO 1 shards nothing; from ZeRO 2 on there are buffers for units all the same.
  l.zero = p.dp == 1 && p.zero == 1 ? 0 : p.zero;
  l.zero_group = p.zero_group == p.dp ? 0 : p.zero_group;
  l.recompute = config.activation_checkpointing;
  l.sequence_parallel = p.sequence_parallel && p.tp > 1;
  return l;
}

std::optional<Forecast> forecast_run(const Config& config, const std::string& machine,
                                     std::span<const KnownRun> known) {
  const std::optional<MachineFigures> figures = read_machine(machine);
  if (!figures) return std::nullopt;
  double half = 0;
  const std::optional<Candidate> c = price_run(config, *figures, &half);
  if (!c) return std::nullopt;
  std::vector<double> ratios;
  for (const KnownRun& run : known) {
    double unused = 0;
    const std::optional<Candidate> other = price_run(run.config, *figures, &unused);
    if (other && run.seconds > 0) ratios.push_back(run.seconds / other->estimate.seconds);
  }
  const double factor = ratios.empty() ? 1.0 : median(ratios);
  if (!ratios.empty()) half = std::min(half, kAnchored);
  Forecast f;
  f.seconds = c->estimate.seconds * factor;
  f.low = f.seconds * (1 - half);
  f.high = f.seconds * (1 + half);
  f.estimate = c->estimate;
  return f;
}

}  // namespace stretto::plan
