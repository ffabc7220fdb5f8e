#include "train/rank_plan.h"

#include <unistd.h>

#include <algorithm>

#include "account/stages.h"
#include "base/units.h"
#include "config/schema.h"
#include "parallel/schedule.h"
#include "train/batch_plan.h"

namespace stretto {
namespace {

Config with_micro_batch(Config config, int64_t micro_batch) {
  config.micro_batch = micro_batch;
  return config;
}

// The most that any rank needs: the ends of the pipeline differ from its middle.
size_t largest_plan(const Config& config) {
  size_t most = 0;
  for (int pp = 0; pp < config.parallel.pp; ++pp) {
    Coordinates at;
    at.pp = pp;
    most = std::max(most, memory_totals(memory_plan(rank_shape(config, at))).total);
  }
  return most;
}

std::string gib(size_t bytes) { return format_bytes(static_cast<double>(bytes)); }

}  // namespace

PipelineSchedule effective_schedule(const ParallelConfig& parallel) {
  return parallel.interleave > 1 ? PipelineSchedule::interleaved : parallel.schedule;
}

std::vector<int64_t> layer_partition(const Config& config) {
  const ParallelConfig& p = config.parallel;
  if (p.partition.front() == '[') return partition_list(p.partition);
  return even_partition(config.model.layers, p.pp * p.interleave,
                        p.partition == "transformer+embedding");
}

RankShape rank_shape(const Config& config, const Coordinates& at) {
  const ParallelConfig& p = config.parallel;
  RankShape shape;
  shape.model = config.model;
  shape.micro_batch = config.micro_batch;
  shape.seq_len = config.seq_len > 0 ? config.seq_len : config.model.positions;
  shape.tp = p.tp;
  shape.dp = p.zero_group > 0 ? p.zero_group : p.dp;
  shape.zero = p.zero;
  shape.sequence_parallel = p.sequence_parallel;
  shape.deterministic = config.deterministic;
  shape.precision = config.precision;
  shape.checkpointing = config.activation_checkpointing;
  shape.accumulation = rounds(config.global_batch, config.micro_batch, p.dp);
  shape.first_stage = at.pp == 0;
  shape.last_stage = at.pp == p.pp - 1;
  if (config.device == Device::cuda) shape.loss_chunk_bytes = int64_t{1} << 30;
  shape.chunks = stage_chunks(layer_partition(config), p.pp, at.pp);
  const Schedule schedule =
      make_schedule(effective_schedule(p), static_cast<int>(p.pp),
                    static_cast<int>(shape.accumulation), static_cast<int>(p.interleave));
  shape.split_backward = schedule.split_backward;
  const auto peak = check_schedule(schedule).peak[static_cast<size_t>(at.pp)];
  shape.in_flight.assign(peak.begin(), peak.end());
  return shape;
}

int64_t largest_micro_batch(const Config& config, size_t bytes) {
  const int64_t most = std::max<int64_t>(1, config.global_batch / config.parallel.dp);
  auto fits = [&](int64_t b) { return largest_plan(with_micro_batch(config, b)) <= bytes; };
  if (!fits(1)) return 0;
  int64_t low = 1, high = most;  // memory grows with the micro-batch
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    (fits(middle) ? low : high) = fits(middle) ? middle : middle - 1;
  }
  return low;
}

size_t memory_budget(const Config& config, int64_t ranks_here) {
  if (config.memory_limit > 0) return static_cast<size_t>(config.memory_limit);
  const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  // A twentieth stays with the system.
  return pages * page / 20 * 19 / static_cast<size_t>(std::max<int64_t>(1, ranks_here));
}

void require_fits(const Config& config, size_t bytes) {
  const size_t need = largest_plan(config);
  if (need <= bytes) return;
  const int64_t fits = largest_micro_batch(config, bytes);
  Config full = config;
  full.activation_checkpointing = Checkpointing::full;
  std::string hint;
  if (fits > 0) {
    hint = fmt::format("micro_batch={} fits ({})", fits,
                       gib(largest_plan(with_micro_batch(config, fits))));
  } else if (largest_plan(with_micro_batch(full, 1)) <= bytes) {
    hint = "activation_checkpointing=full micro_batch=1 fits";
  } else {
    hint =
        "not even micro_batch=1 with full checkpointing fits: use a smaller model, more ranks "
        "with tp, pp or zero, or raise memory_limit";
  }
  throw Error(
      ExitCode::out_of_memory,
      fmt::format("{} with micro_batch {} and seq_len {} needs {} per rank, {} are there",
                  config.model.name, config.micro_batch, config.seq_len, gib(need), gib(bytes)),
      hint);
}

}  // namespace stretto
