// stretto sweep: many configurations, each in its own process.
#include "bench/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "account/parameters.h"
#include "base/log.h"
#include "base/shell_text.h"
#include "base/terminal.h"
#include "base/text_table.h"
#include "base/units.h"
#include "bench/figures.h"
#include "bench/launcher.h"
#include "bench/process.h"
#include "bench/safe_text.h"
#include "bench/survey.h"
#include "cli/candidates.h"
#include "cli/page.h"
#include "cli/sweep_progress.h"
#include "cli/sweep_slurm.h"
#include "cli/verbs.h"
#include "config/schema.h"
#include "machine/machine.h"
#include "train/signals.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Measures many configurations; shows the plan first, --run starts it\n\n"
    "Examples:\n"
    "  stretto sweep configs/sweeps/topologies.yaml           what would run, and what cannot\n"
    "  stretto sweep configs/sweeps/topologies.yaml --run     runs it, or goes on where it "
    "stopped\n"
    "  stretto sweep -m tiny tiny-1m -s 6 7 -b 10 11 --run    2 models x 2 lengths x 2 batches\n"
    "  stretto sweep -m tiny --tp 1 2 --zero 0 1 -g 2 --run   topologies of two ranks\n"
    "  stretto sweep SPEC --run --launcher mpirun             ranks as processes\n"
    "  stretto sweep SPEC --run --launcher slurm --wait       an array of jobs; without --wait, "
    "collect when they have ended\n"
    "Then: stretto collect runs/sweep, stretto report runs/sweep\n";

struct Options {
  std::string spec, directory = "runs/sweep", timeout, launcher = "threads";
  std::vector<std::string> only;
  SlurmOptions slurm;
  std::optional<int64_t> steps;
  std::optional<double> seconds;
  SweepFlags flags;
  bool run = false, retry = false;
};

void print_plan(const std::vector<PlannedPoint>& points) {
  TextTable table({"point", "model", ">T", "precision", ">dp", ">tp", ">pp", ">ZeRO", ">micro",
                   ">accum", ">global", "checkpointing", ">memory/rank", ">sec/it"});
  for (const PlannedPoint& p : points) {
    if (!p.reason.empty()) continue;
    const Config& c = p.config;
    table.add({printable(p.point.label), printable(c.model.name), fmt::format("{}", c.seq_len),
               name_of(c.precision), fmt::format("{}", c.parallel.dp),
               fmt::format("{}", c.parallel.tp), fmt::format("{}", c.parallel.pp),
               fmt::format("{}", c.parallel.zero), fmt::format("{}", c.micro_batch),
               fmt::format("{}", grad_accumulation(c)), fmt::format("{}", c.global_batch),
               name_of(c.activation_checkpointing),
               format_bytes(static_cast<double>(p.memory.predicted_rank)),
               p.predicted.seconds > 0 ? format_seconds(p.predicted.seconds) : "-"});
  }
  const std::vector<std::string> common = table.take_common();
  std::string page = common.empty() ? "" : fmt::format("all: {}\n\n", fmt::join(common, ", "));
  if (!table.empty()) page += table.text(output_width());
  for (const PlannedPoint& p : points) {
    if (p.reason.empty()) continue;
    page += fmt::format("\n{} {}: {}\n", name_of(p.status), printable(p.point.label),
                        one_line(p.reason, 2000));
  }
  write_page(page);
}

void print_sum(const std::vector<PlannedPoint>& points, const SweepOptions& how) {
  const auto count = [&](const auto& is) {
    return static_cast<size_t>(std::count_if(points.begin(), points.end(), is));
  };
  const size_t cannot = count([](const PlannedPoint& p) { return !p.reason.empty(); });
  const size_t left = count([&](const PlannedPoint& p) { return would_run(p, how); });
  const size_t finished = points.size() - cannot - left;
  write_page(
      fmt::format("\n{}, {} to run{}, {} that cannot; {} and {} s each, at least. {}\n",
                  counted(std::ssize(points), "point"), left,
                  finished > 0 ? fmt::format(", {} finished before", finished) : "", cannot,
                  counted(how.steps, "timed step"), how.seconds,
                  left > 0 || finished == 0 ? "Add --run to start."
                                            : fmt::format("Nothing is left: stretto collect {}",
                                                          shell_word(how.directory))),
      0);
}

bool uses_gpus(const PlannedPoint& point) { return point.config.device == Device::cuda; }

// Returns false if every point has a row and none of them could be measured.
bool run_all(const std::vector<PlannedPoint>& points, SweepOptions how) {
  bool measured = false;
  install_stop_signals();
  how.machine = prepare_sweep(how.directory);
  // Points are processes of their own; planning them asked their GPUs what is free.
  if (std::ranges::any_of(points, uses_gpus)) release_gpus();
  SweepProgress progress(points, how, stderr_is_terminal());
  how.stop = [] { return stop_signal() != 0; };
  how.waiting = [&](const PlannedPoint& p, double s) { progress.waiting(p, s); };
  for (const PlannedPoint& point : points) {
    const PointResult result = run_point(point, how);
    measured = measured || result.outcome == PointOutcome::running_elsewhere ||
               result.record.status == RunStatus::ok;
    switch (result.outcome) {
      case PointOutcome::ran:
        progress.finished(point, result.record, "", true);
        break;
      case PointOutcome::already_finished:
        progress.finished(point, result.record, "(finished before)", false);
        break;
      case PointOutcome::running_elsewhere:
        progress.elsewhere(point);
        break;
      case PointOutcome::stopped:
        throw Error(ExitCode::resumable, "the sweep was stopped",
                    "run the same command again: finished points are kept");
    }
  }
  return measured || points.empty();
}

// Points whose timed steps alone take longer than they may last, by their prediction.
void warn_of_long_points(const std::vector<PlannedPoint>& points, const SweepOptions& how) {
  for (const PlannedPoint& p : points) {
    const double step = p.predicted.seconds, limit = time_limit(p, how);
    const double steps = static_cast<double>(how.steps) * step;
    const double seconds = std::min(how.seconds, (kMostSteps - kWarmupSteps) * step);
    if (std::max(steps, seconds) <= limit || !would_run(p, how)) continue;
    const std::string what = counted(how.steps, "timed step");
    spdlog::warn("{}: {} will not end within its limit of {}: raise timeout, or leave it out",
                 printable(p.point.label),
                 steps > limit ? fmt::format("{} of {}", what, format_seconds(step))
                               : fmt::format("{} s of timed steps", how.seconds),
                 format_seconds(limit));
  }
}

// The machine on which points will run, for predictions; measured once per sweep. Nodes of a
// cluster are other machines: until a job has measured one, nothing is predicted for an array.
std::string machine_text(const Options& options) {
  const std::string known = sweep_machine(options.directory);
  if (!known.empty()) return known;
  if (launcher_from_name(options.launcher) == SweepLauncher::slurm) return "";
  spdlog::info("measuring this machine, a few seconds");
  return options.run ? prepare_sweep(options.directory) : to_json(survey_machine(true)).dump();
}

std::vector<PlannedPoint> plan(const Options& options, SweepOptions& how) {
  if (options.spec.empty() == empty(options.flags)) {
    throw Error(ExitCode::usage, "sweep takes a spec file, or flags that begin with -m",
                "stretto sweep configs/sweeps/topologies.yaml, or stretto sweep -m tiny -s 6 7");
  }
  std::vector<SweepPoint> points;
  if (options.spec.empty()) {
    points = points_of(options.flags);
  } else {
    SweepSpec spec = parse_sweep(read_yaml_file(options.spec));
    points = std::move(spec.points);
    how.steps = spec.steps;
    how.seconds = spec.seconds;
    how.timeout = spec.timeout;
  }
  if (options.steps) how.steps = *options.steps;
  if (options.seconds) how.seconds = *options.seconds;
  if (!options.timeout.empty()) how.timeout = parse_seconds(options.timeout);
  if (!(how.timeout > 0)) {
    throw Error(ExitCode::usage, fmt::format("--timeout {}", printable(options.timeout)),
                "give each point some time, such as 10min");
  }
  require_readable(points);  // checked before seconds of measuring
  return plan_points(points, machine_text(options), how.launcher);
}

// This program as the user can type it: the bare name if the shell finds this program by it, else
// the shorter of its absolute and its relative path.
std::string program_as_typed(const std::string& path) {
  std::error_code failed;
  const std::string name = std::filesystem::path(path).filename().string();
  const std::string found = find_program(name);
  if (!found.empty() && std::filesystem::equivalent(found, path, failed)) return name;
  const std::string near = std::filesystem::relative(path, failed).string();
  return failed || near.empty() || near.size() >= path.size() ? path : near;
}

// This process's own words, except those that choose a launcher: each job of an array adds its own.
std::vector<std::string> own_command() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) {
    const std::string flag = word.substr(0, word.find('='));
    const bool valued = flag == "--launcher" || flag == "--partition" || flag == "--account";
    if (valued && flag == word) std::getline(in, word, '\0');
    if (!valued && flag != "--wait") words.push_back(word);
  }
  words[0] = own_program();
  return words;
}

void keep_only(const std::vector<std::string>& ids, std::vector<PlannedPoint>& points) {
  if (ids.empty()) return;
  for (const std::string& id : ids) {
    const auto is = [&](const PlannedPoint& p) { return p.id == id || p.point.label == id; };
    if (std::any_of(points.begin(), points.end(), is)) continue;
    throw Error(ExitCode::usage, fmt::format("--only {}: no point of this name", printable(id)),
                "names are those of the plan: run without --run to see it");
  }
  std::erase_if(points, [&](const PlannedPoint& p) {
    return std::none_of(ids.begin(), ids.end(),
                        [&](const std::string& id) { return p.id == id || p.point.label == id; });
  });
}

void start(const Options& options, SweepOptions how, const std::vector<PlannedPoint>& points) {
  const SweepLauncher launcher = launcher_from_name(options.launcher);
  if (launcher == SweepLauncher::slurm) {
    submit_sweep(points, how, options.slurm, own_command());
    return;
  }
  how.launch = launch_words(launcher, probe_mpi(), geteuid() == 0);
  // The job of an array runs a single point; its row is written whatever happened.
  if (!run_all(points, how) && options.only.empty()) {
    throw Error(ExitCode::regression, "no point of this sweep was measured",
                "the reasons are above, and in the points' records; --retry runs them again");
  }
}

void sweep(const Options& options) {
  SweepOptions how;
  how.directory = options.directory;
  how.program = own_program();
  how.retry = options.retry;
  const bool slurm = launcher_from_name(options.launcher) == SweepLauncher::slurm;
  const bool array =
      options.slurm.wait || !options.slurm.partition.empty() || !options.slurm.account.empty();
  if (array && !slurm) {
    throw Error(ExitCode::usage, "--wait, --partition and --account are for --launcher slurm",
                "leave them out, or add --launcher slurm");
  }
  how.launcher = slurm ? "srun" : options.launcher;  // jobs of an array start their ranks with srun
  std::vector<PlannedPoint> points = plan(options, how);
  keep_only(options.only, points);
  warn_of_long_points(points, how);
  if (!options.run) {
    print_plan(points);
    print_sum(points, how);
    return;
  }
  start(options, how, points);
  if (!options.only.empty()) return;  // one job of a larger sweep
  const std::string program = shell_word(program_as_typed(how.program));
  const std::string directory = for_stdout(shell_word(options.directory));
  fmt::print("\nnext: {0} collect {1}\n      {0} report {1}\n", program, directory);
}

void add_flags(Command* verb, SweepFlags& f) {
  constexpr int kMany = 64;
  verb->add_option("-m,--models", f.models, "Models of the registry")
      ->offers(known_models)
      ->expected(1, kMany);
  verb->add_option("-t,--precisions", f.precisions, "fp32, amp_bf16, bf16, amp_fp16, amp_fp8")
      ->offers(find_key("precision")->words)
      ->expected(1, kMany);
  verb->add_option("-s,--seq-len", f.sequences, "LO HI: sequence lengths 2^LO to 2^HI")
      ->expected(2, 2);
  verb->add_option("-b,--batch", f.batches, "LO HI: tokens per step, 2^LO to 2^HI")->expected(2, 2);
  verb->add_option("-g,--ranks", f.ranks, "Ranks; dp takes what tp and pp leave")
      ->expected(1, kMany)
      ->between(1, 1e6);
  verb->add_option("--micro-batch", f.micro_batches, "Sequences, or auto")->expected(1, kMany);
  verb->add_option("--accum", f.accumulations, "Micro-batches per step")
      ->expected(1, kMany)
      ->between(1, 1e6);
  verb->add_option("--dp", f.dp, "Data-parallel ranks")->expected(1, kMany)->between(1, 1e6);
  verb->add_option("--tp", f.tp, "Tensor-parallel ranks")->expected(1, kMany)->between(1, 1e6);
  verb->add_option("--pp", f.pp, "Pipeline stages")->expected(1, kMany)->between(1, 1e6);
  verb->add_option("--zero", f.zero, "ZeRO stages")
      ->offers(find_key("parallel.zero")->words)
      ->expected(1, kMany);
  verb->add_option("--checkpointing", f.checkpointing, "none, gelu, selective, full")
      ->offers(find_key("activation_checkpointing")->words)
      ->expected(1, kMany);
  verb->add_flag("--offload", f.offload, "Activations in host memory");
}

}  // namespace

void add_sweep(Command& app) {
  Command* verb = app.add_subcommand("sweep", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_option("spec", options->spec, "YAML file: base, set, grid, points, steps, timeout")
      ->file();
  add_flags(verb, options->flags);
  verb->add_option("-o,--out", options->directory, "Directory of the sweep")
      ->directory()
      ->capture_default_str();
  verb->add_option("--steps", options->steps, "Timed steps per point (12)")->between(1, 1e9);
  verb->add_option("--seconds", options->seconds, "Seconds of timed steps per point, at least (2)")
      ->between(0, 1e9);
  verb->add_option("--timeout", options->timeout, "Time limit per point (10min)");
  verb->add_option("--launcher", options->launcher, "threads, mpirun, slurm, or srun inside a job")
      ->offers({"threads", "mpirun", "slurm", "srun"})
      ->capture_default_str();
  verb->add_option("--only", options->only, "Only these points, by name")->expected(1, 1000);
  verb->add_flag("--wait", options->slurm.wait, "slurm: stay until every point has its row");
  verb->add_option("--partition", options->slurm.partition, "slurm: queue");
  verb->add_option("--account", options->slurm.account, "slurm: who pays");
  verb->add_flag("--run", options->run, "Start");
  verb->add_flag("--retry", options->retry, "Run points again that did not end with ok");
  verb->callback([options] { sweep(*options); });
}

}  // namespace stretto::cli
