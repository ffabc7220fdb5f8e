// stretto bench: one configuration, timed.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "account/peaks.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "bench/figures.h"
#include "bench/launcher.h"
#include "bench/measure.h"
#include "bench/survey.h"
#include "bench/turns.h"
#include "cli/keep_inputs.h"
#include "cli/page.h"
#include "cli/run_notes.h"
#include "cli/verbs.h"
#include "comm/launch.h"
#include "config/reader.h"
#include "config/rules.h"
#include "train/launch.h"
#include "train/signals.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Measures one configuration: speed, utilisation, memory, where the time goes\n\n"
    "Examples:\n"
    "  stretto bench configs/runs/tiny.yaml                       a page to read\n"
    "  stretto bench tiny-1m seq_len=256 parallel.tp=2 threads=1  two ranks, one thread each\n"
    "  stretto bench mpt-125m seq_len=256 micro_batch=auto        the largest micro-batch that "
    "fits\n"
    "  stretto bench configs/runs/tiny.yaml --out run.json        keeps the record\n"
    "  stretto bench --from run.json                              the same run again\n";

struct Options {
  std::vector<std::string> words;
  std::string out, from, machine, label, turns;
  int64_t ranks = 0, steps = kTimedSteps, warmup = kWarmupSteps;
  double seconds = kTimedSeconds;
  bool json = false;
};

void line(const char* title, const std::string& text) {
  write_page(fmt::format("{:<13}  {}\n", title, text));
}

std::string percent(double fraction) { return fmt::format("{:.2f} %", 100 * fraction); }

std::string rate_text(double flops) { return format_rate(flops, 4); }

void print_speed(const RunRecord& r, const Figures& f) {
  line("step", fmt::format("{} median of {} (95 % interval {} to {}, +-{:.1f} %)",
                           format_seconds(f.step.median), f.step.count, format_seconds(f.step.low),
                           format_seconds(f.step.high), 100 * f.step.half_width()));
  if (f.step.disturbed()) {
    line("", "steps differ that much: other programs use this machine; end them, or try threads=1");
  }
  line("", fmt::format("p10 {}, p90 {}; {} found{}", format_seconds(f.step.p10),
                       format_seconds(f.step.p90), counted(r.warmup, "warm-up step"),
                       r.settled ? "" : ", still settling: raise --warmup"));
  if (r.predicted.seconds > 0) {
    line("", fmt::format("{} predicted ({} to {}), {} beside the measured",
                         format_seconds(r.predicted.seconds), format_seconds(r.predicted.low),
                         format_seconds(r.predicted.high),
                         format_change(r.predicted.seconds / f.step.median - 1, 0)));
  }
  line("throughput",
       fmt::format("{} tokens/s, {} samples/s, {} tokens/s per rank",
                   format_count(f.tokens_per_second), format_digits(f.samples_per_second, 3),
                   format_count(f.tokens_per_second_per_device)));
  const ConventionFigures& mpt = f.of(Convention::mpt);
  line("work", fmt::format("{} per rank, {} in all (model FLOPs, mpt)", rate_text(mpt.model_flops),
                           rate_text(1e15 * f.aggregate_pflops)));
  if (f.gemm_fraction) {
    line("", fmt::format("{} of the measured matrix product rate (executed FLOPs)",
                         percent(*f.gemm_fraction)));
  }
}

void print_utilization(const RunRecord& r, const Figures& f) {
  if (r.peak <= 0) return line("utilisation", "unknown peak");
  line("peak", fmt::format("{} per rank: {}", rate_text(r.peak), r.peak_source));
  for (const ConventionFigures& c : f.conventions) {
    if (!c.utilization) continue;
    line(
        c.convention == Convention::mpt ? "utilisation" : "",
        fmt::format("{:<13} MFU {:>8}  HFU {:>8}  without attention {:>8} {:>8}",
                    name_of(c.convention), percent(c.utilization->mfu), percent(c.utilization->hfu),
                    percent(c.utilization->mfu_star), percent(c.utilization->hfu_star)));
  }
}

void print_parts(const RunRecord& r) {
  constexpr const char* kTitles[] = {"matrix products",
                                     "attention",
                                     "other compute",
                                     "optimizer",
                                     "copies and casts",
                                     "waiting for dp",
                                     "waiting for tp",
                                     "waiting for pp (bubble)",
                                     "data",
                                     "host"};
  double total = 0;
  for (const double seconds : r.parts) total += seconds;
  if (total <= 0) return;
  fmt::print("\nWhere the step goes (mean over steps and ranks; timing itself takes {:.2f} %)\n",
             100 * r.timing_overhead);
  for (size_t i = 0; i < kParts; ++i) {
    if (r.parts[i] / total < 5e-5) continue;
    const auto bar = static_cast<size_t>(std::lround(40 * r.parts[i] / total));
    fmt::print("  {:<24} {:>10}  {:>6.2f} %  {}\n", kTitles[i], format_seconds(r.parts[i]),
               100 * r.parts[i] / total, std::string(bar, '#'));
  }
}

// dp x micro-batch x rounds; the last round may be smaller.
std::string batch_text(const Config& c) {
  const int64_t rounds = grad_accumulation(c);
  const int64_t missing = c.parallel.dp * c.micro_batch * rounds - c.global_batch;
  return fmt::format("{} = {} x {} x {}{}", c.global_batch, c.parallel.dp, c.micro_batch, rounds,
                     missing > 0 ? fmt::format(" - {}", missing) : "");
}

// Ranks that share a process are measured together: beside stages that differ, only sums compare.
std::string memory_text(const RunMemory& m, int64_t ranks) {
  const auto text = [](int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  if (m.grown_rank <= 0) {
    return fmt::format("{} per rank predicted, all ranks {}; not measured", text(m.predicted_rank),
                       text(m.predicted_total));
  }
  if (m.ranks_here > 1 && m.predicted_total < ranks * m.predicted_rank) {
    return fmt::format("{} predicted for the largest rank; all ranks {}, {} measured",
                       text(m.predicted_rank), text(m.predicted_total), text(m.grown_total));
  }
  return fmt::format("{} per rank predicted, {} measured; all ranks {}, {} measured",
                     text(m.predicted_rank), text(m.grown_rank), text(m.predicted_total),
                     text(m.grown_total));
}

void print_page(const RunRecord& r) {
  const Config& c = r.config;
  const ParallelConfig& p = c.parallel;
  line("model", fmt::format("{}, sequence {}, {}", printable(c.model.name), c.seq_len,
                            name_of(c.precision)));
  line("topology",
       fmt::format("dp {} x tp {} x pp {}, ZeRO {}; global batch {}; checkpointing {}", p.dp, p.tp,
                   p.pp, p.zero, batch_text(c), name_of(c.activation_checkpointing)));
  line("machine", printable(r.device));
  line("status", r.reason.empty() ? name_of(r.status)
                                  : fmt::format("{}: {}", name_of(r.status), printable(r.reason)));
  const Figures f = derive(r);
  if (f.step.median > 0) {
    print_speed(r, f);
    print_utilization(r, f);
    line("loss", fmt::format("{:.4f} -> {:.4f}{}", f.loss_first, f.loss_last,
                             c.data.path.empty() ? " (synthetic data: nothing to learn)" : ""));
  }
  const RunMemory& m = r.memory;
  if (m.predicted_rank > 0) {
    const auto text = [](int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
    line("memory", memory_text(m, r.devices()));
    line("", fmt::format("limit {} per rank; {} peak {}, {} before the run", text(m.limit),
                         c.device == Device::cuda ? "GPU" : "process", text(m.measured),
                         text(m.before)));
  }
  if (r.disturbed()) {
    line("busy", describe(r.cores) + " during the timed steps: some of the time is theirs");
  }
  const RunGpu& g = r.gpu;
  if (g.samples > 0) {
    line("GPU", fmt::format("{:.0f} MHz ({:.0f} at least), {:.0f} W, {:.0f} C, held back by {}",
                            g.sm_clock_mhz, g.sm_clock_mhz_min, g.power_watts, g.temperature_c_max,
                            printable(g.held_back_by)));
  }
  print_parts(r);
}

Config load(const Options& options) {
  if (!options.from.empty() && options.words.empty()) {
    const RunRecord record = read_record(posix_fs(), options.from);
    if (record.status == RunStatus::rejected && record.command.empty()) {
      throw Error(ExitCode::bad_config,
                  fmt::format("{} holds no configuration that can be run: {}",
                              printable(options.from), printable(record.reason)),
                  "run a point of the sweep that was timed, or name the configuration");
    }
    const bool told = !record.launcher.empty() && detect_launch().rank == 0;
    if (told && record.launcher != launcher_here()) {
      spdlog::warn("the ranks of {} were started by {}, these by {}", printable(options.from),
                   record.launcher, launcher_here());
    }
    // A record shows the dp that was chosen.
    require_world(record.config, available_ranks(options.ranks));
    require_valid(record.config);
    return record.config;
  }
  if (options.words.empty() || !options.from.empty()) {
    throw Error(ExitCode::usage, "bench needs either a configuration or a record with --from",
                "stretto bench configs/runs/tiny.yaml");
  }
  ResolvedConfig resolved = load_config(options.words);
  fit_world(resolved, available_ranks(options.ranks));
  require_valid(resolved);
  return resolved.config;
}

std::vector<std::string> command_of(const Options& options) {
  std::vector<std::string> command = {"stretto", "bench"};
  if (!options.from.empty()) command.insert(command.end(), {"--from", options.from});
  if (options.ranks > 0) command.insert(command.end(), {"-n", fmt::format("{}", options.ranks)});
  command.insert(command.end(), options.words.begin(), options.words.end());
  if (options.steps != kTimedSteps)
    command.insert(command.end(), {"--steps", fmt::format("{}", options.steps)});
  if (options.seconds != kTimedSeconds)
    command.insert(command.end(), {"--seconds", fmt::format("{}", options.seconds)});
  if (options.warmup != kWarmupSteps)
    command.insert(command.end(), {"--warmup", fmt::format("{}", options.warmup)});
  return command;
}

// Checked before minutes of measuring, not after.
void require_room(const Options& options, const Config& config) {
  const std::string& path = options.out;
  std::vector<std::string> inputs = options.words;
  inputs.insert(inputs.end(), {options.from, options.machine, config.data.path,
                               config.data.eval_path, config.data.tokenizer});
  keep_inputs("--out", path, {path}, inputs);
  make_dirs(posix_fs(), parent_dir(path));
  const AtomicFile room(posix_fs(), path);
}

void bench(const Options& options) {
  MeasureOptions how;
  how.steps = options.steps;
  how.warmup = options.warmup;
  how.seconds = options.seconds;
  how.command = command_of(options);
  how.label = options.label;
  const Config config = load(options);
  const std::string unsharded = detect_launch().rank == 0 ? zero_note(config) : "";
  if (!unsharded.empty()) spdlog::warn("{}", unsharded);
  if (!options.out.empty() && detect_launch().rank == 0) require_room(options, config);
  if (!options.machine.empty()) {
    how.machine = read_machine_file(posix_fs(), options.machine);
    if (!nlohmann::json::parse(how.machine).contains("cpu")) {
      throw Error(ExitCode::bad_data,
                  fmt::format("{} describes no machine", printable(options.machine)),
                  "write it with `stretto doctor --json`");
    }
  }
  if (!options.turns.empty()) {
    if (!was_started_by_run_in_turns()) {
      throw Error(ExitCode::usage, "--in-turns, but nobody says when a step may begin",
                  "`stretto compare A B --bench CONFIG` starts two programs that take turns");
    }
    how.turns = options.turns;
    how.turn = take_turn;
  }
  const bool live = stderr_is_terminal();
  how.progress = [live](int64_t step, int64_t steps) {
    if (live)
      fmt::print(stderr, "\rstep {}{}", step, step < steps ? fmt::format("/{}", steps) : "");
  };
  install_stop_signals(stop_note(false));
  const std::optional<RunRecord> measured = measure(config, how);
  if (live) fmt::print(stderr, "\r\033[K");
  if (!measured) return;  // the process with the first rank prints the result
  const RunRecord& record = *measured;
  if (!options.out.empty()) write_record(posix_fs(), options.out, record);
  if (options.json) {
    fmt::print("{}", for_stdout(record_text(record)));
  } else {
    print_page(record);
    if (!options.out.empty()) fmt::print("\nrecord         {}\n", for_stdout(options.out));
  }
  if (record.exit_code != 0) throw Answered{static_cast<ExitCode>(record.exit_code)};
}

}  // namespace

void add_bench(Command& app) {
  Command* verb = app.add_subcommand("bench", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_settings(options->words);
  verb->add_option("-n,--ranks", options->ranks, "Ranks in this process (threads)")
      ->between(1, 4096);
  verb->add_option("--from", options->from, "Run again what this record describes")->file();
  verb->add_option("-o,--out", options->out, "Write the record (JSON) here")->file();
  verb->add_option("--steps", options->steps, "Timed steps, at least")
      ->capture_default_str()
      ->between(1, 1e9);
  verb->add_option("--seconds", options->seconds,
                   "Seconds of timed steps, at least (1000 steps at most)")
      ->capture_default_str()
      ->between(0, 1e9);
  verb->add_option("--warmup", options->warmup, "Most further steps that may be warm-up")
      ->capture_default_str()
      ->between(0, 1e9);
  verb->add_option("--machine", options->machine,
                   "Machine as `stretto doctor --json` printed it, instead of measuring now")
      ->file();
  verb->add_option("--label", options->label, "Name of the run in tables");
  verb->add_option("--in-turns", options->turns,
                   "Begin each step when `stretto compare --bench` says so, which gives the name");
  verb->add_flag("--json", options->json, "The record on stdout");
  verb->callback([options] { bench(*options); });
}

}  // namespace stretto::cli
