#include "train/launch.h"

#include <algorithm>

#include "base/log.h"
#include "base/units.h"
#include "comm/launch.h"
#include "comm/mpi.h"
#include "comm/threads.h"
#include "config/rules.h"
#include "train/cores.h"
#include "train/rank_plan.h"

namespace stretto {

namespace {

// The micro-batch to use where at most `most` fits: small enough that the pipeline has several
// micro-batches for each of its stages, because with few of them stages wait for each other. An
// interleaved schedule needs whole rounds of micro-batches, so not every size is legal: a smaller
// one is preferred to a larger one.
int64_t for_pipeline(const Config& config, int64_t most) {
  constexpr int64_t kPerStage = 4;
  const ParallelConfig& p = config.parallel;
  if (p.pp == 1) return most;
  const int64_t samples = std::max<int64_t>(1, config.global_batch / p.dp);
  const int64_t wanted = std::min(most, std::max<int64_t>(1, samples / (kPerStage * p.pp)));
  Config tried = config;
  const auto is_legal = [&](int64_t micro_batch) {
    tried.micro_batch = micro_batch;
    return is_valid(tried);
  };
  for (int64_t b = wanted; b >= 1; --b) {
    if (is_legal(b)) return b;
  }
  for (int64_t b = wanted + 1; b <= most; ++b) {
    if (is_legal(b)) return b;
  }
  return wanted;
}

}  // namespace

int64_t available_ranks(int64_t asked) {
  const LaunchInfo launch = detect_launch();
  if (!launch.wants_mpi()) return asked;
  if (asked != 0 && asked != launch.size) {
    throw Error(ExitCode::usage,
                fmt::format("-n {} among {} ranks that were started", asked, launch.size),
                "leave -n out: mpirun or srun says how many there are");
  }
  return launch.size;
}

void fit_world(ResolvedConfig& resolved, int64_t ranks) {
  ParallelConfig& p = resolved.config.parallel;
  constexpr int64_t kMost = int64_t{1} << 20;
  for (const int64_t degree : {p.dp, p.tp, p.pp}) {
    if (degree < 1 || degree > kMost) return;  // the rules will refuse it
  }
  const bool given = resolved.origin_of("parallel.dp").source == Source::command_line;
  const int64_t replica = p.tp * p.pp;
  if (ranks > 0 && p.dp == 1 && !given && ranks % replica == 0) p.dp = ranks / replica;
  require_world(resolved.config, ranks);
}

void require_world(const Config& config, int64_t ranks) {
  if (ranks == 0 || ranks == config.world_size()) return;
  const ParallelConfig& p = config.parallel;
  throw Error(ExitCode::bad_config,
              fmt::format("{}, but parallel.dp x tp x pp = {} x {} x {} = {}",
                          counted(ranks, "rank"), p.dp, p.tp, p.pp, config.world_size()),
              fmt::format("start {}, or change dp, tp, pp so that their product is {}",
                          counted(config.world_size(), "rank"), ranks));
}

int64_t ranks_here(const Config& config) {
  const LaunchInfo launch = detect_launch();
  return launch.wants_mpi() ? launch.local_size : config.world_size();
}

void choose_micro_batch(Config& config, size_t budget) {
  if (config.micro_batch != kAuto) return;
  config.micro_batch = 1;
  require_fits(config, budget);
  config.micro_batch = for_pipeline(config, largest_micro_batch(config, budget));
  require_valid(config);
  spdlog::info("micro_batch: auto chose {}", config.micro_batch);
}

void fit_memory(Config& config) {
  const size_t budget = memory_budget(config, ranks_here(config));
  choose_micro_batch(config, budget);
  require_fits(config, budget);
  if (config.memory_limit == 0) return;
  Config unlimited = config;  // the limit may be more than there is
  unlimited.memory_limit = 0;
  const size_t there = memory_budget(unlimited, ranks_here(config)), need = largest_need(config);
  if (need > there) {
    spdlog::warn("memory_limit allows {} per rank, but this machine has {}: a run may be killed",
                 format_bytes(static_cast<double>(need)), format_bytes(static_cast<double>(there)));
  }
}

void run_ranks(const Config& config, const std::function<void(Comm&)>& run) {
  const LaunchInfo launch = detect_launch();
  const auto body = [&](Comm& world) {
    bind_rank(config, launch.wants_mpi() ? launch.local_rank : world.rank(), ranks_here(config));
    run(world);
  };
  if (launch.wants_mpi() && launch.size > 1) {
    run_mpi_ranks(body, 2 * config.train.watchdog);
  } else if (config.world_size() == 1) {
    body(*make_self_comm("world"));
  } else {
    run_thread_ranks(static_cast<int>(config.world_size()), body);
  }
}

}  // namespace stretto
