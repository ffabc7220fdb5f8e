// stretto train: trains a model from a configuration.
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/verbs.h"
#include "comm/threads.h"
#include "config/reader.h"
#include "config/rules.h"
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
    "  stretto train -n 4 configs/runs/tiny.yaml parallel.dp=4  four ranks, no launcher needed\n"
    "  stretto train mpt-125m seq_len=256 train.steps=10        a registry model\n";

struct Options {
  std::vector<std::string> words;
  int ranks = 0;
};

void train(const Options& options) {
  ResolvedConfig resolved = load_config(options.words);
  require_valid(resolved);
  Config& config = resolved.config;
  if (options.ranks > 0 && options.ranks != config.world_size()) {
    throw Error(ExitCode::bad_config,
                fmt::format("-n {} ranks, but dp x tp x pp = {} x {} x {} = {}", options.ranks,
                            config.parallel.dp, config.parallel.tp, config.parallel.pp,
                            config.world_size()),
                fmt::format("set parallel.dp={} (or tp, pp) to match -n",
                            options.ranks / (config.parallel.tp * config.parallel.pp)));
  }
  const size_t budget = memory_budget(config, config.world_size());
  if (config.micro_batch == kAuto) {
    config.micro_batch = 1;
    require_fits(config, budget);
    config.micro_batch = largest_micro_batch(config, budget);
    spdlog::info("micro_batch: auto chose {}", config.micro_batch);
  }
  require_fits(config, budget);
  install_stop_signals();
  ExitCode code = ExitCode::ok;
  run_thread_ranks(static_cast<int>(config.world_size()), [&](Comm& world) {
    const RunResult result = run_training(config, world);
    if (world.rank() == 0) code = result.code;
  });
  if (code != ExitCode::ok) std::exit(static_cast<int>(code));
}

}  // namespace

void add_train(Command& app) {
  Command* verb = app.add_subcommand("train", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_option("config", options->words, "YAML files, dotted.key=value words, or a model name")
      ->required();
  verb->add_option("-n,--ranks", options->ranks, "ranks in this process (threads)");
  verb->callback([options] { train(*options); });
}

}  // namespace stretto::cli
