#include "train/rank_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "account/gpu_limits.h"
#include "backend/cpu/workspace.h"
#include "backend/cuda/cuda_options.h"
#include "base/ceil_div.h"
#include "base/control_groups.h"
#include "base/units.h"
#include "comm/launch.h"
#include "config/schema.h"
#include "parallel/stage_shape.h"
#include "train/cores.h"
#include "train/launch.h"
#include "train/rank_backend.h"

namespace stretto {
namespace {

std::string gib(size_t bytes) { return format_bytes(static_cast<double>(bytes)); }

Config with_micro_batch(Config config, int64_t micro_batch) {
  config.micro_batch = micro_batch;
  return config;
}

std::string part_for_saves(const Config& config) {
  if (config.output.empty()) return "";
  return fmt::format(", {} of it for saves", gib(save_bytes(config, rank_shape(config, {}))));
}

size_t share_of_this_host(int64_t ranks_here) {
  const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  return host_share(pages * static_cast<size_t>(sysconf(_SC_PAGE_SIZE)), memory_limit(),
                    ranks_here);
}

// A rank's share of the smallest of the GPUs that this machine's ranks use in turn; 0 where there
// is no GPU (making the backend reports that). What other programs use of a GPU counts only if one
// process decides for all ranks: separate processes would see different numbers.
size_t gpu_share(int64_t ranks_here) {
  const int devices = cuda_device_count();
  if (devices == 0) return 0;
  size_t least = std::numeric_limits<size_t>::max();
  const bool one_process = !detect_launch().wants_mpi();
  for (int d = 0; d < std::min<int64_t>(devices, ranks_here); ++d) {
    least = std::min(least, cuda_total_bytes(d) / 20 * 19);
    if (one_process) least = std::min(least, cuda_free_bytes(d));
  }
  return gpus_per_task() ? least : least / static_cast<size_t>(ceil_div(ranks_here, devices));
}

// Advice: the first change of the configuration that would fit.
std::string what_fits(const Config& config, size_t bytes) {
  Config tried = config;
  const auto fits = [&](const char* name) -> std::string {
    tried.micro_batch = 1;
    const size_t need = largest_need(tried);
    return need <= bytes ? fmt::format("{} micro_batch=1 fits ({})", name, gib(need)) : "";
  };
  if (const int64_t most = largest_micro_batch(config, bytes); most > 0) {
    return fmt::format("micro_batch={} fits ({})", most,
                       gib(largest_need(with_micro_batch(config, most))));
  }
  tried.activation_checkpointing = Checkpointing::full;
  std::string hint = fits("activation_checkpointing=full");
  if (config.device == Device::cuda && hint.empty()) {
    tried.optimizer_offload = true;
    hint = fits("activation_checkpointing=full optimizer_offload=true");
    tried.activation_offload = true;
    if (hint.empty()) {
      hint = fits("activation_checkpointing=full optimizer_offload=true activation_offload=true");
    }
  }
  if (!hint.empty()) return hint;
  return fmt::format(
      "not even micro_batch=1 with full checkpointing fits: use a smaller model, or more {} with "
      "tp, pp or zero{}",
      config.device == Device::cpu ? "machines" : "GPUs",
      config.memory_limit > 0 ? ", or raise memory_limit" : "");
}

}  // namespace

size_t host_share(size_t machine, std::optional<int64_t> limit, int64_t ranks_here) {
  const size_t bytes = limit ? std::min(machine, static_cast<size_t>(*limit)) : machine;
  return bytes / 20 * 19 / static_cast<size_t>(std::max<int64_t>(1, ranks_here));
}

RunCut run_cut(const Config& config) {
  const ParallelConfig& p = config.parallel;
  return {p.tp, p.pp, splits_backward(p.running_schedule())};
}

RankShape rank_shape(const Config& config, const Coordinates& at) {
  RunShape run;
  run.rank.model = config.model;
  run.rank.micro_batch = config.micro_batch;
  run.rank.seq_len = config.sequence_length();
  run.rank.deterministic = config.deterministic;
  run.rank.precision = config.precision;
  run.rank.gradient_type = config.gradient_dtype;
  run.rank.reduce_type = config.parallel.reduce_dtype;
  run.rank.checkpointing = config.activation_checkpointing;
  run.rank.activation_offload = config.activation_offload;
  run.rank.optimizer_offload = config.optimizer_offload;
  run.topology = config.parallel;
  run.global_batch = config.global_batch;
  run.on_gpu = config.device == Device::cuda;
  run.logits_chunk = config.logits_chunk;
  RankShape shape = stage_shape(run, at.pp);
  if (config.device == Device::cpu) {
    shape.workspace = cpu_workspace(shape, threads_per_rank(config, ranks_here(config)));
  }
  return shape;
}

std::vector<RankShape> stage_shapes(const Config& config) {
  std::vector<RankShape> shapes;
  for (int pp = 0; pp < config.parallel.pp; ++pp) {
    Coordinates at;
    at.pp = pp;
    shapes.push_back(rank_shape(config, at));
  }
  return shapes;
}

size_t largest_need(const Config& config) {
  size_t most = 0;
  for (const RankShape& shape : stage_shapes(config)) {
    size_t bytes = memory_totals(memory_plan(shape)).total;
    if (config.device == Device::cpu) {
      bytes += memory_totals(host_plan(shape)).total + save_bytes(config, shape);
    }
    most = std::max(most, bytes + device_overhead(config, shape));
  }
  return most;
}

size_t largest_host_need(const Config& config) {
  if (config.device == Device::cpu) return 0;
  size_t most = 0;
  for (const RankShape& shape : stage_shapes(config)) {
    most = std::max(most, memory_totals(host_plan(shape)).total + save_bytes(config, shape));
  }
  return most;
}

int64_t largest_micro_batch(const Config& config, size_t bytes) {
  int64_t most = std::max<int64_t>(1, config.global_batch / config.parallel.dp);
  if (config.device == Device::cuda) most = std::min(most, kGpuSequences);
  const auto fits = [&](int64_t b) { return largest_need(with_micro_batch(config, b)) <= bytes; };
  if (!fits(1)) return 0;
  int64_t low = 1, high = most;  // memory grows with the micro-batch
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

size_t device_overhead(const Config& config, const RankShape& shape) {
  if (config.device == Device::cpu) return 0;
  // A kernel that is forced by this variable may be any of them.
  bool hopper = std::getenv("STRETTO_CUDA_ATTENTION") == nullptr;
  const int64_t used = std::min<int64_t>(cuda_device_count(), ranks_here(config));
  for (int d = 0; d < std::max<int64_t>(used, 1); ++d) hopper = hopper && cuda_is_hopper(d);
  return device_overhead(config, shape, hopper);
}

size_t device_overhead(const Config& config, const RankShape& shape, bool hopper) {
  return gpu_overhead(shape, config.repeatable, hopper);
}

size_t save_bytes(const Config& config, const RankShape& shape) {
  if (config.output.empty()) return 0;
  const FlatLayout layout = flat_layout(shape);
  const auto elements = static_cast<size_t>(shape.zero > 0 ? layout.shard_total() : layout.total);
  // Only one copy of the model is saved, by the ranks that hold it.
  const ParallelConfig& p = config.parallel;
  const int64_t here = std::max<int64_t>(1, ranks_here(config));
  const int64_t savers = std::min((shape.zero > 0 ? layout.dp : 1) * p.tp * p.pp, here);
  return elements * static_cast<size_t>(checkpoint_bytes(shape.precision) * savers) /
         static_cast<size_t>(here);
}

size_t memory_budget(const Config& config, int64_t ranks_here) {
  if (config.memory_limit > 0) return static_cast<size_t>(config.memory_limit);
  if (config.device == Device::cpu) return share_of_this_host(ranks_here);
  const size_t share = gpu_share(ranks_here);
  return share > 0 ? share : std::numeric_limits<size_t>::max();
}

void require_fits(const Config& config, size_t bytes) {
  const size_t need = largest_need(config);
  const size_t outside = largest_host_need(config);
  if (const size_t host = share_of_this_host(ranks_here(config)); outside > host) {
    throw Error(
        ExitCode::out_of_memory,
        fmt::format("{} with micro_batch {} needs {} of host memory per rank{}, {} are there",
                    config.model.name, config.micro_batch, gib(outside), part_for_saves(config),
                    gib(host)),
        "offload less, use a smaller micro_batch or activation_checkpointing=full; with "
        "zero, tp or pp more machines share what saving needs; nothing is saved with output=\"\"");
  }
  if (need <= bytes) return;
  throw Error(ExitCode::out_of_memory,
              fmt::format("{} with micro_batch {} and seq_len {} needs {} per rank{}, {} are there",
                          config.model.name, config.micro_batch, config.seq_len, gib(need),
                          config.device == Device::cpu ? part_for_saves(config) : "", gib(bytes)),
              what_fits(config, bytes));
}

}  // namespace stretto
