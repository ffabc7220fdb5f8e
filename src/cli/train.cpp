// stretto train: trains a model from a configuration.
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/log.h"
#include "bench/training_record.h"
#include "cli/run_notes.h"
#include "cli/verbs.h"
#include "comm/launch.h"
#include "config/reader.h"
#include "config/rules.h"
#include "train/cores.h"
#include "train/launch.h"
#include "train/rank_plan.h"
#include "train/run.h"
#include "train/signals.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Trains a GPT\n\n"
    "Examples:\n"
    "  stretto train configs/runs/tiny.yaml                     a few seconds, synthetic data\n"
    "  stretto train configs/runs/tiny.yaml data.path=my.txt    your text, byte by byte\n"
    "  stretto train -n 4 configs/runs/tiny.yaml                four ranks, no launcher needed\n"
    "  mpirun -n 2 stretto train configs/runs/tiny.yaml         two processes over MPI\n"
    "  stretto train mpt-125m seq_len=256 train.steps=10        a registry model\n"
    "  stretto train configs/runs/tiny.yaml output=runs/a       keeps checkpoints and records\n\n"
    "The same command continues a run that has an output. Ctrl-C saves it and exits with 75.\n"
    "`stretto config keys` lists all that can be set, `stretto flops CONFIG` its memory and "
    "work.\n";

struct Options {
  std::vector<std::string> words;
  int ranks = 0;
};

std::vector<std::string> command_of(const Options& options) {
  std::vector<std::string> command = {"stretto", "train"};
  if (options.ranks > 0) command.insert(command.end(), {"-n", std::to_string(options.ranks)});
  command.insert(command.end(), options.words.begin(), options.words.end());
  return command;
}

// Warns once, early in a run, if other programs use its cores. Not for several processes of one
// job, which cannot be told from other programs.
class BusyCores {
 public:
  explicit BusyCores(const Config& config) : cores_(allowed_cores()) {
    const int64_t ranks = config.world_size();
    wanted_ = static_cast<double>(threads_per_rank(config, ranks) * ranks);
    asked_ = config.device != Device::cpu || detect_launch().size > 1;
  }

  void begin() {
    watch_.emplace(cores_);
    start_ = clock_seconds();
  }

  void after_step() {
    constexpr double kLongEnough = 2;  // seconds
    if (asked_ || clock_seconds() - start_ < kLongEnough) return;
    asked_ = true;
    const std::string note = busy_note(watch_->use(watch_->own_seconds(), wanted_));
    if (!note.empty()) spdlog::warn("{}", note);
  }

 private:
  std::vector<int> cores_;  // read before ranks are bound to some of them
  double wanted_;
  bool asked_;
  std::optional<CoreWatch> watch_;
  double start_ = 0;
};

void print_notes(const Config& config, Trainer& trainer) {
  constexpr const char* kAsText = "data.format=bytes";
  if (trainer.state().step >= config.train.steps) return;  // it does nothing
  spdlog::info("{}", start_note(config, static_cast<double>(largest_need(config))));
  for (const std::string& note :
       {warmup_note(config.train), zero_note(config), idle_gpu_note(config),
        json_note(config.data.path, config.data.format, kAsText),
        json_note(config.data.eval_path, config.data.format, kAsText)}) {
    if (!note.empty()) spdlog::warn("{}", note);
  }
}

// Runs `run`, whose failure becomes the end of the record.
void recorded(TrainingRecord& record, const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    record.end(error);
    throw;
  } catch (const std::bad_alloc&) {
    record.end(Error(ExitCode::out_of_memory, "out of memory", "use a smaller batch or model"));
    throw;
  }
}

void train(const Options& options) {
  ResolvedConfig resolved = load_config(options.words);
  fit_world(resolved, available_ranks(options.ranks));
  require_valid(resolved);
  Config& config = resolved.config;
  fit_memory(config);
  install_stop_signals(stop_note(!config.output.empty()));
  ExitCode code = ExitCode::ok;
  TrainingRecord record(config, command_of(options));
  BusyCores busy(config);
  RunOptions first;
  first.on_start = [&](Trainer& trainer) {
    print_notes(config, trainer);
    busy.begin();
  };
  first.on_step = [&](const StepRecord& step) {
    record.add(step);
    busy.after_step();
  };
  const auto run_rank = [&](Comm& world) {
    if (world.rank() != 0) {
      run_training(config, world);
    } else {  // recorded here, because after an error under MPI the process ends in run_ranks
      recorded(record, [&] { code = run_training(config, world, first).code; });
    }
  };
  // Thread ranks end together; this is the error of the one that failed.
  recorded(record, [&] { run_ranks(config, run_rank); });
  record.end(code);
  if (code != ExitCode::ok) throw Answered{code};
}

}  // namespace

void add_train(Command& app) {
  Command* verb = app.add_subcommand("train", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_settings(options->words)->required();
  verb->add_option("-n,--ranks", options->ranks, "ranks in this process (threads)")
      ->between(1, 4096);
  verb->callback([options] { train(*options); });
}

}  // namespace stretto::cli
