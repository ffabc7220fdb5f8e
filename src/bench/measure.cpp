#include "bench/measure.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "account/peaks.h"
#include "backend/cuda/cuda_options.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "bench/launcher.h"
#include "bench/predict.h"
#include "bench/program_facts.h"
#include "bench/rank_reports.h"
#include "bench/resident.h"
#include "bench/survey.h"
#include "comm/launch.h"
#include "config/rules.h"
#include "train/cores.h"
#include "train/gpu_clock.h"
#include "train/launch.h"
#include "train/rank_plan.h"
#include "train/run.h"

namespace stretto {
namespace {

using nlohmann::json;

// Reported by `doctor` if the CPU has units for it.
constexpr const char* kBf16Rate = "bf16_gemm_flops";

bool multiplies_bf16(const Config& config) {
  return types_of(config.precision).compute == DType::bf16;
}

// The share of the rate of all usable cores that the ranks' threads get. It is more than their
// share of the cores, because a few cores run at a higher clock and need not share with a
// neighbour: n of them do up to n times what one does alone.
double share_of_cores(const Config& config, int64_t ranks, const json& cpu, const json& rates) {
  if (config.threads <= 0) return 1;
  const auto usable = static_cast<double>(std::max<int64_t>(1, cpu.value("usable", int64_t{1})));
  const double all = rates.value("fma_flops", 0.0), one = rates.value("fma_flops_one_core", 0.0);
  const double core = std::max(1 / usable, all > 0 ? one / all : 0);
  return std::min(1.0, core * static_cast<double>(ranks * config.threads));
}

// How many ranks share the cores that were measured: those are all of the machine's, or the ones
// that a launcher gave to the first rank.
int64_t ranks_on_measured_cores(const RunRecord& record, const Neighbours& ranks, const json& cpu) {
  if (ranks.here == 0) return record.devices();
  return cpu.value("usable", int64_t{1}) == ranks.cores ? ranks.on_cores : ranks.here;
}

void describe_processor(RunRecord& record, const json& machine, const Neighbours& neighbours) {
  const json cpu = machine.value("cpu", json::object());
  record.device = cpu.value("model", "");
  const json rates = machine.value("measured", json::object());
  const int64_t ranks = ranks_on_measured_cores(record, neighbours, cpu);
  const double share =
      share_of_cores(record.config, ranks, cpu, rates) / static_cast<double>(ranks);
  const double fma = rates.value("fma_flops", 0.0), gemm = product_rate(record.config, rates);
  record.peak = std::max(fma, gemm) * share;
  record.gemm_peak = gemm * share;
  record.peak_source = gemm > fma ? "measured matrix-product rate of the cores used"
                                  : "measured fp32 FMA rate of the cores used";
  const json units = cpu.value("simd", json::array());
  const auto has = [&](const char* unit) {
    return std::find(units.begin(), units.end(), unit) != units.end();
  };
  // Units for bf16 are faster than FMA, by a factor that was not measured: no peak.
  if (multiplies_bf16(record.config) && !rates.contains(kBf16Rate) &&
      (has("amx_bf16") || has("avx512_bf16"))) {
    record.peak = record.gemm_peak = 0;
  }
  if (record.peak == 0) record.peak_source = "unknown peak";
}

void describe_gpu(RunRecord& record, const json& machine) {
  const json gpu = machine.value("gpu", json::object());
  const json devices = gpu.value("devices", json::array());
  if (devices.empty()) return;
  record.device = devices[0].value("name", "");
  const auto peak =
      device_peak(record.device, peak_format(record.config.precision, record.config.tf32));
  record.peak = peak.value_or(0);
  record.peak_source = peak ? "promised by the maker, dense" : "unknown peak";
  const json measured = devices[0].value("bf16_measured", json());
  const PeakFormat format = peak_format(record.config.precision, record.config.tf32);
  const bool as_fast = format == PeakFormat::bf16 || format == PeakFormat::fp16;
  if (measured.is_number() && as_fast) record.gemm_peak = measured.get<double>();
}

int64_t planned_steps(const MeasureOptions& options) { return options.steps + options.warmup; }

int64_t ranks_in_process(const Config& config) {
  return detect_launch().wants_mpi() ? 1 : config.world_size();
}

// What the ranks of a timed run have in common.
struct TimedRun {
  const MeasureOptions& options;
  RankReports& reports;
  ResidentPeak& resident;
  RankReports::Process process;
  int64_t most_steps = 0;   // timed as a whole, warm-up included
  int64_t by_operator = 0;  // after these: steps whose operators are timed one by one
  int64_t bytes_before = 0;
  std::string trace_path = {};
};

class TimedRank {
 public:
  TimedRank(const TimedRun& run, Comm& world)
      : run_(run),
        world_(world),
        first_(world.rank() == 0),
        watches_(first_ || run.process.ranks == 1),
        process_(run.process),
        mine_(run.reports.join(first_)) {
    if (watches_) process_.watch.emplace(process_.cores);
  }

  void train(const Config& config) {
    RunOptions run;
    run.print = false;
    run.keep_tasks = true;
    run.program = program_facts();
    run.trace_path = run_.trace_path;
    if (watches_) run.on_start = [this](Trainer&) { run_.resident.look(); };
    run.on_step = [this](const StepRecord& step) { after_step(step); };
    run.by_operator = [this] { return !run_.options.turn && all_timed() && !all_by_operator(); };
    run.enough = [this] { return run_.options.turn ? !more_ : all_timed() && all_by_operator(); };
    const RunResult result = run_training(config, world_, run);
    const Mesh mesh(config.parallel);
    world_.barrier();  // after it, the rank that watches has looked for the last time
    process_.grown = run_.resident.bytes() - run_.bytes_before;
    run_.reports.gather(world_, mine_, result, mesh.coordinates(world_.rank()), process_);
  }

 private:
  void after_step(const StepRecord& step) {
    const MeasureOptions& options = run_.options;
    mine_.add(step);
    if (watches_) run_.resident.look();
    if (watches_ && step.step == options.warmup) process_.watch.emplace(process_.cores);
    if (!first_) return;
    run_.reports.note(step);
    if (step.by_operator) return;
    timed_ += step.step > options.warmup ? step.times.total : 0;
    if (options.progress) options.progress(step.step, planned_steps(options));
    if (options.turn) more_ = options.turn();
  }

  bool all_timed() const {
    const int64_t steps = run_.reports.steps();
    return steps == run_.most_steps ||
           (steps >= planned_steps(run_.options) && timed_ >= run_.options.seconds);
  }
  bool all_by_operator() const { return run_.reports.steps_by_operator() >= run_.by_operator; }

  const TimedRun& run_;
  Comm& world_;
  const bool first_;
  const bool watches_;  // memory and cores of its process
  RankReports::Process process_;
  RankReports::Rank mine_;
  double timed_ = 0;  // seconds of steps that are no warm-up
  bool more_ = true;  // the program that takes turns with this one goes on
};

void train(RunRecord& record, const MeasureOptions& options, RankReports& reports,
           ResidentPeak& resident) {
  Config config = record.config;
  config.output.clear();
  config.train.eval_every = 0;
  config.train.ramp_up = {};  // all figures are those of the full batch
  TimedRun run{options, reports, resident, RankReports::Process{}};
  run.most_steps = config.train.steps;
  run.by_operator = options.by_operator.value_or(config.device == Device::cuda ? 3 : 0);
  run.bytes_before = record.memory.before;
  run.trace_path = join_path(record.config.output, "trace.json");
  config.train.steps += run.by_operator;
  run.process.ranks = ranks_in_process(config);
  run.process.cores = allowed_cores();      // asked before ranks are bound to some of them
  run.process.threads = run.process.ranks;  // on a GPU the host does little but wait
  if (config.device == Device::cpu) {
    run.process.threads *= threads_per_rank(config, ranks_here(config));
  }
  if (config.trace > 0) make_dirs(posix_fs(), record.config.output);
  run_ranks(config, [&](Comm& world) { TimedRank(run, world).train(config); });
}

void run_checked(RunRecord& record, const MeasureOptions& options, RankReports& reports,
                 ResidentPeak& resident) {
  require_fixed_clock(record.config);
  const size_t budget = memory_budget(record.config, ranks_here(record.config));
  record.memory.limit = static_cast<int64_t>(budget);
  choose_micro_batch(record.config, budget);
  predict_memory(record);
  predict_time(record);
  require_fits(record.config, budget);
  train(record, options, reports, resident);
  if (reports.code() != ExitCode::ok) {
    throw Error(reports.code(), "stopped by a signal before the last step", "run it again");
  }
}

}  // namespace

double product_rate(const Config& config, const json& rates) {
  const char* key = multiplies_bf16(config) && rates.contains(kBf16Rate) ? kBf16Rate : "gemm_flops";
  const json rate = rates.value(key, json());
  return rate.is_number() ? rate.get<double>() : 0;
}

void describe_device(RunRecord& record, const std::string& name, const Neighbours& neighbours) {
  if (record.machine.empty()) return;
  try {
    const json machine = json::parse(record.machine);
    if (record.config.device == Device::cuda)
      describe_gpu(record, machine);
    else
      describe_processor(record, machine, neighbours);
  } catch (const json::exception& error) {
    const std::string what = error.what();  // without the error number of the JSON library
    throw Error(
        ExitCode::bad_data,
        fmt::format("{}: not a description of a machine:{}", name, what.substr(what.find(']') + 1)),
        "write it with `stretto doctor --json`");
  }
}

void predict_memory(RunRecord& record) {
  RunMemory& memory = record.memory;
  memory.ranks_here = ranks_in_process(record.config);
  for (const RankShape& shape : stage_shapes(record.config)) {
    const MemoryTotals totals = memory_totals(memory_plan(shape));
    const auto bytes = static_cast<int64_t>(totals.total + device_overhead(record.config, shape));
    memory.predicted_total += bytes * record.config.parallel.dp * record.config.parallel.tp;
    if (bytes <= memory.predicted_rank) continue;
    memory.predicted_rank = bytes;
    std::copy(std::begin(totals.by_term), std::end(totals.by_term), memory.predicted_terms.begin());
  }
}

LossVerdict judge_losses(const std::vector<StepSample>& steps, bool synthetic) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!std::isfinite(steps[i].loss)) {
      return {RunStatus::diverged, fmt::format("the loss of step {} is not finite", i + 1)};
    }
  }
  const size_t third = steps.size() / 3;
  if (synthetic || third == 0) return {};
  double first = 0, last = 0;
  for (size_t i = 0; i < third; ++i) {
    first += steps[i].loss;
    last += steps[steps.size() - 1 - i].loss;
  }
  if (last < first) return {};
  const auto n = static_cast<double>(third);
  return {
      RunStatus::fail,
      fmt::format("the loss did not fall ({:.4f} in the first third of the steps, {:.4f} in the "
                  "last): speed without learning does not count",
                  first / n, last / n)};
}

int64_t scheduled_steps(int64_t steps, int64_t warmup) {
  return std::max(kMostSteps, steps + warmup);
}

std::optional<RunRecord> measure(Config config, const MeasureOptions& options) {
  RunRecord record;
  record.label = options.label;
  record.turns = options.turns;
  record.command = options.command;
  record.launcher = launcher_here();  // before MPI adds variables of its own to the environment
  record.build = build_info();
  record.started = utc_now();
  config.train.steps = scheduled_steps(options.steps, options.warmup);
  record.config = std::move(config);
  // Only the first rank makes a record. If others measured as well, they would take its cores.
  const LaunchInfo launch = detect_launch();
  const bool measures = !launch.wants_mpi() || launch.rank == 0;
  record.machine = options.machine;
  if (options.machine.empty()) {
    const MachineInfo machine = survey_machine(measures);
    warn_if_disturbed(machine, "repeat when they are done");
    // Those of other processes were measured here, too.
    if (measures && launch.wants_mpi() && !machine.gpu.gpus.empty()) {
      release_gpus(launch.local_rank % std::max(1, cuda_device_count()));
    }
    record.machine = to_json(machine).dump();
  }
  describe_device(record);
  ResidentPeak resident;
  record.memory.before = resident.bytes();
  const double start = clock_seconds();
  RankReports reports;
  try {
    run_checked(record, options, reports, resident);
  } catch (const Error& error) {
    set_failure(record, error);
  } catch (const std::bad_alloc&) {
    set_failure(record, Error(ExitCode::out_of_memory, "the system has no more memory",
                              "use a smaller micro_batch or set memory_limit"));
  }
  if (!reports.empty() && !reports.has_first()) return std::nullopt;
  record.wall_seconds = clock_seconds() - start;
  record.memory.measured = resident.bytes();
  if (record.config.micro_batch == kAuto) record.config.micro_batch = 1;
  reports.fill(record, options.warmup);
  describe_device(record, "the machine description", reports.neighbours());
  if (record.status == RunStatus::ok || record.counts()) {
    const LossVerdict verdict = judge_losses(record.steps, record.config.data.path.empty());
    if (verdict.status == RunStatus::ok) return record;
    record.status = verdict.status;
    record.reason = verdict.reason;
    if (verdict.status == RunStatus::diverged)
      record.exit_code = static_cast<int>(ExitCode::diverged);
    if (verdict.status == RunStatus::fail)
      record.exit_code = static_cast<int>(ExitCode::regression);
  }
  return record;
}

}  // namespace stretto
