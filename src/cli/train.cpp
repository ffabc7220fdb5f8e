// stretto train: trains a model from a configuration.
#include <string>
#include <vector>

#include "base/error.h"
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

void train(const Options& options) {
  ResolvedConfig resolved = load_config(options.words);
  fit_world(resolved, available_ranks(options.ranks));
  require_valid(resolved);
  Config& config = resolved.config;
  fit_memory(config);
  install_stop_signals();
  ExitCode code = ExitCode::ok;
  run_ranks(config, [&](Comm& world) {
    const RunResult result = run_training(config, world);
    if (world.rank() == 0) code = result.code;
  });
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
