// stretto sweep: many configurations, each in its own process.
#include "bench/sweep.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "account/parameters.h"
#include "base/log.h"
#include "base/units.h"
#include "bench/figures.h"
#include "bench/process.h"
#include "bench/safe_text.h"
#include "cli/text_table.h"
#include "cli/verbs.h"
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
    "Then: stretto collect runs/sweep, stretto report runs/sweep\n";

struct Options {
  std::string spec, directory = "runs/sweep", timeout;
  std::optional<int64_t> steps;
  SweepFlags flags;
  bool run = false, retry = false;
};

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Reasons may have several indented lines.
std::string one_line(const std::string& text, size_t most) {
  std::string out;
  for (const char c : without_control(text)) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  return out.size() <= most ? out : out.substr(0, most - 3) + "...";
}

void print_plan(const std::vector<PlannedPoint>& points) {
  TextTable table({"point", "model", ">T", "precision", ">dp", ">tp", ">pp", ">ZeRO", ">micro",
                   ">accum", ">global", "checkpointing", ">memory/rank"});
  for (const PlannedPoint& p : points) {
    if (!p.reason.empty()) continue;
    const Config& c = p.config;
    table.add({printable(p.point.label), printable(c.model.name), fmt::format("{}", c.seq_len),
               name_of(c.precision), fmt::format("{}", c.parallel.dp),
               fmt::format("{}", c.parallel.tp), fmt::format("{}", c.parallel.pp),
               fmt::format("{}", c.parallel.zero), fmt::format("{}", c.micro_batch),
               fmt::format("{}", grad_accumulation(c)), fmt::format("{}", c.global_batch),
               name_of(c.activation_checkpointing),
               format_bytes(static_cast<double>(p.memory.predicted_rank))});
  }
  if (!table.empty()) fmt::print("{}", table.text());
  for (const PlannedPoint& p : points) {
    if (p.reason.empty()) continue;
    fmt::print("\n{} {}: {}\n", name_of(p.status), printable(p.point.label),
               one_line(p.reason, 2000));
  }
}

// One line per finished point; on a terminal also one that moves.
class Progress {
 public:
  Progress(size_t points, bool live) : points_(points), live_(live) {}

  void waiting(const std::string& label, double seconds) {
    if (!live_) return;
    fmt::print(stderr, "\r\033[K[{}/{}] {} {}{}", done_ + 1, points_, printable(label),
               format_seconds(seconds), eta());
    std::fflush(stderr);
  }
  void finished(const RunRecord& record, const char* note, bool timed) {
    if (live_) fmt::print(stderr, "\r\033[K");
    ++done_;
    if (timed) ++ran_;
    const Figures f = derive(record);
    const std::string speed =
        f.step.median > 0
            ? fmt::format("{:>9} tokens/s  {} +-{:.1f} %", format_count(f.tokens_per_second),
                          format_seconds(f.step.median),
                          50 * (f.step.high - f.step.low) / f.step.median)
            : one_line(record.reason, 100);
    fmt::print("[{}/{}] {:<28} {:<9} {}{}\n", done_, points_, printable(record.label),
               name_of(record.status), speed, note);
    std::fflush(stdout);
  }
  void elsewhere(const std::string& label) {
    ++done_;
    fmt::print("[{}/{}] {:<28} runs in another sweep\n", done_, points_, printable(label));
  }

 private:
  std::string eta() const {
    if (ran_ == 0) return "";
    const double each = since(start_) / static_cast<double>(ran_);
    return fmt::format(", about {} left",
                       format_seconds(each * static_cast<double>(points_ - done_)));
  }

  size_t points_, done_ = 0, ran_ = 0;
  bool live_;
  Clock::time_point start_ = Clock::now();
};

void run_all(const std::vector<PlannedPoint>& points, SweepOptions how) {
  install_stop_signals();
  prepare_sweep(how);
  Progress progress(points.size(), stderr_is_terminal());
  how.stop = [] { return stop_signal() != 0; };
  how.waiting = [&](const PlannedPoint& p, double s) { progress.waiting(p.point.label, s); };
  for (const PlannedPoint& point : points) {
    const PointResult result = run_point(point, how);
    switch (result.outcome) {
      case PointOutcome::ran:
        progress.finished(result.record, "", point.reason.empty());
        break;
      case PointOutcome::already_finished:
        progress.finished(result.record, "  (finished before)", false);
        break;
      case PointOutcome::running_elsewhere:
        progress.elsewhere(point.point.label);
        break;
      case PointOutcome::stopped:
        throw Error(ExitCode::resumable, "the sweep was stopped",
                    "run the same command again: finished points are kept");
    }
  }
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
    how.timeout = spec.timeout;
  }
  if (options.steps) how.steps = *options.steps;
  if (!options.timeout.empty()) how.timeout = parse_seconds(options.timeout);
  return plan_points(points);
}

// The shorter of the absolute path and the one from here, so that printed commands can be pasted.
std::string program_as_typed(const std::string& path) {
  std::error_code failed;
  const std::string near = std::filesystem::relative(path, failed).string();
  return failed || near.empty() || near.size() >= path.size() ? path : near;
}

void sweep(const Options& options) {
  SweepOptions how;
  how.directory = options.directory;
  how.program = own_program();
  how.retry = options.retry;
  const std::vector<PlannedPoint> points = plan(options, how);
  size_t runnable = 0;
  for (const PlannedPoint& p : points) runnable += p.reason.empty() ? 1 : 0;
  if (!options.run) {
    print_plan(points);
    fmt::print("\n{} points, {} to run, {} that cannot; {} timed steps each. Add --run to start.\n",
               points.size(), runnable, points.size() - runnable, how.steps);
    return;
  }
  run_all(points, how);
  const std::string program = shell_word(program_as_typed(how.program));
  const std::string directory = shell_word(options.directory);
  fmt::print("\nnext: {0} collect {1}\n      {0} report {1}\n", program, directory);
}

void add_flags(Command* verb, SweepFlags& f) {
  constexpr int kMany = 64;
  verb->add_option("-m,--models", f.models, "Models of the registry")->expected(1, kMany);
  verb->add_option("-t,--precisions", f.precisions, "fp32, amp_bf16, bf16, amp_fp16, amp_fp8")
      ->expected(1, kMany);
  verb->add_option("-s,--seq-len", f.sequences, "LO HI: sequence lengths 2^LO to 2^HI")
      ->expected(2, 2);
  verb->add_option("-b,--batch", f.batches, "LO HI: tokens per step, 2^LO to 2^HI")->expected(2, 2);
  verb->add_option("-g,--ranks", f.ranks, "Ranks; dp takes what tp and pp leave")
      ->expected(1, kMany);
  verb->add_option("--micro-batch", f.micro_batches, "Sequences, or auto")->expected(1, kMany);
  verb->add_option("--accum", f.accumulations, "Micro-batches per step")->expected(1, kMany);
  verb->add_option("--dp", f.dp, "Data-parallel ranks")->expected(1, kMany);
  verb->add_option("--tp", f.tp, "Tensor-parallel ranks")->expected(1, kMany);
  verb->add_option("--pp", f.pp, "Pipeline stages")->expected(1, kMany);
  verb->add_option("--zero", f.zero, "ZeRO stages")->expected(1, kMany);
  verb->add_option("--checkpointing", f.checkpointing, "none, selective, full")->expected(1, kMany);
  verb->add_flag("--offload", f.offload, "Activations in host memory");
}

}  // namespace

void add_sweep(Command& app) {
  Command* verb = app.add_subcommand("sweep", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_option("spec", options->spec, "YAML file: base, set, grid, points, steps, timeout");
  add_flags(verb, options->flags);
  verb->add_option("--out", options->directory, "Directory of the sweep")->capture_default_str();
  verb->add_option("--steps", options->steps, "Timed steps per point (12)");
  verb->add_option("--timeout", options->timeout, "Time limit per point (10min)");
  verb->add_flag("--run", options->run, "Start");
  verb->add_flag("--retry", options->retry, "Run points again that did not end with ok");
  verb->callback([options] { sweep(*options); });
}

}  // namespace stretto::cli
