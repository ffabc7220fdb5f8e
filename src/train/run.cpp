#include "train/run.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <optional>

#include "base/fs.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "comm/watchdog.h"
#include "train/agreement.h"
#include "train/audit.h"
#include "train/log_line.h"
#include "train/output_trial.h"
#include "train/resume.h"
#include "train/run_lock.h"
#include "train/run_log.h"
#include "train/run_tokenizer.h"
#include "train/saver.h"
#include "train/signals.h"
#include "train/straggler.h"
#include "train/trace_file.h"

namespace stretto {
namespace {

constexpr int kLastTries = 10;  // tries of a last save that has failed

void print_line(const Config& config, LineMeans& means, const StepRecord& record,
                double seconds_so_far, int64_t steps_so_far) {
  means.add(record);
  if (record.step % config.log.every != 0 && record.step != record.steps) return;
  const StepRecord mean = means.take();
  const double per_step = seconds_so_far / static_cast<double>(steps_so_far);
  const double eta = per_step * static_cast<double>(record.steps - record.step);
  switch (config.log.format) {
    case LogFormat::compact:
      fmt::print("{}\n", compact_line(config, mean, eta, output_width()));
      break;
    case LogFormat::megatron:
      fmt::print("{}\n", megatron_line(config, mean));
      break;
    case LogFormat::json:
      fmt::print("{}\n", json_line(config, record));
      break;
  }
  std::fflush(stdout);
}

// What all ranks agree to do after a step.
struct Next {
  int signal = 0;  // the largest that any rank received; 0: none
  bool enough = false, by_operator = false;
};

Next agreed_next(Comm& world, const std::string& run_directory, const RunOptions& options) {
  enum : int32_t { kGoOn, kByOperator, kEnough, kSignals };
  const bool first = world.rank() == 0;
  int32_t signal = stop_signal(), code = kGoOn;
  if (signal == 0 && first && stop_file_exists(run_directory)) signal = SIGUSR1;
  if (first && options.by_operator && options.by_operator()) code = kByOperator;
  if (first && options.enough && options.enough()) code = kEnough;
  if (signal != 0) code = kSignals + signal;
  world.all_reduce(Tensor(&code, DType::i32, {1}), ReduceOp::max);
  return {std::max(code - kSignals, 0), code == kEnough, code == kByOperator};
}

std::string advice_for_skipped(const Config& config, Trainer& trainer) {
  if (trainer.scaler().stuck()) {
    return "lower train.loss_scale.minimum or train.lr, check the data, or use bf16 or fp32";
  }
  if (trainer.scaler().dynamic() && trainer.state().updates == 0) {
    return fmt::format(
        "lower train.loss_scale.initial ({:g}; such steps halve it), or check the data",
        config.train.loss_scale.initial);
  }
  return config.precision == Precision::fp32
             ? "lower train.lr or train.clip, or check the data"
             : "lower train.lr or train.clip, check the data, or use bf16 or fp32";
}

// Ends the run where skipped steps mean that it diverges: too many in a row, or one at the very
// end. With a dynamic loss scale skipped steps are normal while the scale is found, so there it
// takes too many in a row, or a scale that cannot fall any further.
void require_progress(const Config& config, Trainer& trainer) {
  const TrainerState& state = trainer.state();
  const bool scaled = trainer.scaler().dynamic();
  const bool ends_so = !scaled && state.step == config.train.steps && state.skipped_in_a_row > 0;
  const bool too_many = state.skipped_in_a_row >= config.train.max_skipped;
  if (!too_many && !trainer.scaler().stuck() && !ends_so) return;
  throw Error(ExitCode::diverged,
              fmt::format("step {}: {} steps in a row had NaN or infinite gradients{}", state.step,
                          state.skipped_in_a_row,
                          scaled ? fmt::format(" (loss scale {:g})", state.loss_scale.scale) : ""),
              advice_for_skipped(config, trainer));
}

// Whether every step was skipped because no loss scale was found. Such a run has failed as well,
// but it is saved before it says so: more steps may go on from the scale it has reached.
bool found_no_scale(const Config& config, Trainer& trainer) {
  const TrainerState& state = trainer.state();
  return trainer.scaler().dynamic() && state.step == config.train.steps && state.updates == 0;
}

void record_save(CheckpointSaver& saver, RunLog& log) {
  if (const std::optional<SaveReport> save = saver.take_report()) log.save(*save);
}

// Saves when it is time to; otherwise moves on a save that is under way. After a step that was
// skipped there is nothing new to save, and weights that have become NaN must not replace good
// ones. With a dynamic loss scale, however, skipped steps are normal.
void save_if_due(CheckpointSaver& saver, RunLog& log, RunLock& lock, Trainer& trainer,
                 bool stopping) {
  const TrainerState& state = trainer.state();
  const int64_t every = trainer.config().checkpoint.every;
  const bool sound = state.skipped_in_a_row == 0 || trainer.scaler().dynamic();
  if (stopping || (sound && every > 0 && state.step % every == 0)) {
    lock.renew();
    log.sync();  // a run that resumes here needs the lines of all steps before
    saver.save(stopping);
  } else {
    saver.poll();
  }
}

std::string trace_path(const Config& config, const RunOptions& options) {
  return options.trace_path.empty() ? join_path(config.output, "trace.json") : options.trace_path;
}

std::vector<int> stages_of(const Mesh& mesh) {
  std::vector<int> stages;
  for (int rank = 0; rank < mesh.ranks(); ++rank) stages.push_back(mesh.coordinates(rank).pp);
  return stages;
}

// When a window of steps is full, gathers all ranks' compute times; rank 0 names slow ranks and
// logs the times. Steps whose waiting was not timed tell nothing.
void watch_stragglers(StragglerWatch& watch, const StepRecord& record, Comm& world, bool speaks,
                      RunLog& log) {
  if (world.size() == 1 || !record.times.waits_known) return;
  if (!watch.add(record.times.compute(), record.tokens)) return;
  const double mine = watch.window_seconds();
  std::vector<double> all(static_cast<size_t>(world.size()));
  world.all_gather(Tensor(all.data(), DType::f64, {world.size()}),
                   ConstTensor(&mine, DType::f64, {1}));
  const std::vector<std::string> slow = watch.judge(all);
  log.compute_seconds(record.step, all);
  for (const std::string& line : slow) {
    if (speaks) spdlog::warn("step {}: {}", record.step, line);
  }
}

std::vector<Fact> program_and_config(const RunOptions& options, const Config& config) {
  std::vector<Fact> facts = options.program;
  for (Fact& fact : config_facts(config)) facts.push_back(std::move(fact));
  return facts;
}

void say_what_will_not_happen(const Config& config, Trainer& trainer) {
  if (config.train.eval_every > 0 && !trainer.has_held_out()) {
    spdlog::warn(
        "train.eval_every={}: nothing is held out to evaluate; set data.{}",
        config.train.eval_every,
        config.data.path.empty() ? "path" : "eval_path (this run trains on all of data.path)");
  }
  if (trainer.state().step >= config.train.steps) {
    spdlog::info("step {} of {}: nothing to do; raise train.steps to train further",
                 trainer.state().step, config.train.steps);
  }
}

bool is_time_to_evaluate(const Config& config, Trainer& trainer) {
  const int64_t every = config.train.eval_every, step = trainer.state().step;
  return every > 0 && trainer.has_held_out() && (step == config.train.steps || step % every == 0);
}

void evaluate(Trainer& trainer, RunLog& log, bool speaks) {
  const int64_t step = trainer.state().step;
  const double loss = trainer.evaluate(trainer.config().train.eval_batches);
  log.evaluation(step, loss);
  if (!speaks) return;
  switch (trainer.config().log.format) {
    case LogFormat::compact:
      fmt::print("{}\n", compact_evaluation(step, loss));
      break;
    case LogFormat::megatron:
      fmt::print("{}\n", megatron_evaluation(step, loss));
      break;
    case LogFormat::json:
      break;  // the log has printed its line
  }
  std::fflush(stdout);
}

void say_stopped(const Config& config, int signal, int64_t step) {
  const bool file = stop_file_exists(config.output);
  spdlog::warn("{}: stopped after step {} of {}{}", file ? "a file `stop`" : strsignal(signal),
               step, config.train.steps,
               file                     ? "; remove it, then the same command continues"
               : !config.output.empty() ? "; the same command continues"
                                        : "");
}

void say_saved(const Config& config, const CheckpointSaver& saver) {
  spdlog::info("step {} is saved in {}; steps waited {} for checkpoints", saver.saved_step(),
               checkpoint_root(config), format_seconds(saver.stall_seconds()));
}

void say_all_skipped(const Config& config, Trainer& trainer) {
  const int64_t steps = trainer.state().step;
  spdlog::error("{} had NaN or infinite gradients; {}",
                steps == 1 ? "the only step" : fmt::format("all {} steps", steps),
                advice_for_skipped(config, trainer));
}

}  // namespace

RunResult run_training(const Config& config, Comm& world, const RunOptions& options) {
  Watchdog watchdog(world, {.timeout = config.train.watchdog, .dump_dir = config.output});
  watchdog.enter(Section::init);
  require_agreement(world, program_and_config(options, config));
  RunLock lock(world.rank() == 0 ? config.output : "");
  Fs& fs = options.fs != nullptr ? *options.fs : posix_fs();
  if (!config.output.empty()) try_output(world, fs, checkpoint_root(config));
  Trainer trainer(config, world);
  require_agreement(world, data_facts(trainer.data()));
  const bool speaks = options.print && trainer.speaks();
  RunResult result;
  std::optional<CheckpointSaver> saver;
  int64_t resumed = -1;
  if (!config.output.empty()) {
    resumed = resume(trainer, fs, speaks);
    saver.emplace(trainer, fs, resumed);
  }
  if (resumed < 0) trainer.initialise();
  if (world.rank() == 0) keep_tokenizer(fs, config, resumed < 0, options.print);
  if (speaks) say_what_will_not_happen(config, trainer);

  RunLog log(fs, trainer.config(), trainer.speaks(), speaks, trainer.state().step);
  StragglerWatch stragglers(stages_of(trainer.mesh()));
  StepTracer tracer(config, trainer.state().step, trace_path(config, options), options.keep_tasks,
                    fs);
  if (options.on_start) options.on_start(trainer);
  LineMeans means;
  double seconds = 0;
  int64_t taken = 0;  // taken by this call
  while (trainer.state().step < config.train.steps) {
    watchdog.enter(Section::step, trainer.state().step + 1);
    const TraceScope scope(tracer.buffer(trainer, trainer.state().step + 1));
    const StepRecord record = trainer.step();
    seconds += record.times.total;
    ++taken;
    log.step(record);
    if (speaks) print_line(trainer.config(), means, record, seconds, taken);
    if (options.on_step) options.on_step(record);
    require_progress(config, trainer);
    watch_stragglers(stragglers, record, world, speaks, log);
    if (config.train.audit_every > 0 && record.step % config.train.audit_every == 0) {
      audit_replicas(trainer);
    }
    if (is_time_to_evaluate(config, trainer)) {
      watchdog.enter(Section::eval, record.step);
      evaluate(trainer, log, speaks);
    }
    const bool last = record.step == config.train.steps;
    const Next next = last ? Next{} : agreed_next(world, config.output, options);
    trainer.time_operators(next.by_operator);
    if (saver) {
      watchdog.enter(Section::save, record.step);
      save_if_due(*saver, log, lock, trainer, last || next.signal != 0 || next.enough);
      record_save(*saver, log);
    }
    tracer.after_step(trainer, record.step, speaks);
    if (next.enough) break;
    if (next.signal != 0) {
      if (speaks) say_stopped(config, next.signal, record.step);
      result.code = ExitCode::resumable;
      break;
    }
  }
  if (saver && taken > 0) {
    watchdog.enter(Section::save, trainer.state().step);
    saver->require_saved(kLastTries, options.save_again_after);
    record_save(*saver, log);
    if (speaks) say_saved(config, *saver);
  }
  if (taken > 0 && found_no_scale(config, trainer)) {
    if (speaks) say_all_skipped(config, trainer);
    result.code = ExitCode::diverged;
  }
  result.tasks = tracer.tasks();
  watchdog.enter(Section::done, trainer.state().step);
  return result;
}

}  // namespace stretto
