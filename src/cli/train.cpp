// stretto train: trains a model from a configuration.
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/training_record.h"
#include "cli/verbs.h"
#include "config/reader.h"
#include "config/rules.h"
#include "train/launch.h"
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
    "  stretto train mpt-125m seq_len=256 train.steps=10        a registry model\n";

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

void train(const Options& options) {
  ResolvedConfig resolved = load_config(options.words);
  fit_world(resolved, available_ranks(options.ranks));
  require_valid(resolved);
  Config& config = resolved.config;
  fit_memory(config);
  install_stop_signals();
  ExitCode code = ExitCode::ok;
  TrainingRecord record(config, command_of(options));
  const auto recorded = [&](const std::function<void()>& run) {
    try {
      run();
    } catch (const Error& error) {
      record.end(error);
      throw;
    } catch (const std::bad_alloc&) {
      record.end(Error(ExitCode::out_of_memory, "out of memory", "use a smaller batch or model"));
      throw;
    }
  };
  RunOptions first;
  first.on_step = [&](const StepRecord& step) { record.add(step); };
  recorded([&] {  // of thread ranks, the error of the one that failed
    run_ranks(config, [&](Comm& world) {
      if (world.rank() != 0) {
        run_training(config, world);
      } else {
        recorded([&] { code = run_training(config, world, first).code; });  // MPI ends us at once
      }
    });
  });
  record.end(code);
  if (code != ExitCode::ok) throw Answered{code};
}

}  // namespace

void add_train(Command& app) {
  Command* verb = app.add_subcommand("train", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_option("config", options->words, "YAML files, dotted.key=value words, or a model name")
      ->required();
  verb->add_option("-n,--ranks", options->ranks, "ranks in this process (threads)")
      ->between(1, 4096);
  verb->callback([options] { train(*options); });
}

}  // namespace stretto::cli
