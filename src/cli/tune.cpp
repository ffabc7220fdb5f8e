// stretto tune: chooses the algorithms of matrix products by the time of whole steps.
#include "train/tune.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/page.h"
#include "cli/progress.h"
#include "cli/tune_text.h"
#include "cli/verbs.h"
#include "config/reader.h"
#include "config/rules.h"
#include "train/gpu_clock.h"
#include "train/launch.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Chooses the algorithms of matrix products by the time of whole steps\n\n"
    "Examples:\n"
    "  stretto tune mpt-125m seq_len=1024 micro_batch=64 global_batch=64 device=cuda\n"
    "  stretto tune my.yaml --draws 800     longer: smaller differences are found\n\n"
    "Later runs with the same shapes on the same kind of GPU use what it finds. Nothing else is\n"
    "written; the model that it trains is thrown away.\n";

struct Options {
  std::vector<std::string> words;
  TuneOptions tune;
  bool dry = false;
  bool json = false;
};

void tune(const Options& options) {
  ResolvedConfig resolved = load_config(options.words);
  require_valid(resolved);
  Config& config = resolved.config;
  if (config.world_size() != 1) {
    throw Error(ExitCode::bad_config, fmt::format("tuning with {} ranks", config.world_size()),
                "tune one rank's shapes: its micro_batch, without parallel.*");
  }
  require_fixed_clock(config);
  fit_memory(config);
  config.output.clear();
  run_ranks(config, [&](Comm& world) {
    ProgressLine line("tuning", options.tune.draws + 2 * options.tune.turns, "draws");
    TuneOptions settings = options.tune;
    settings.keep = !options.dry;
    settings.progress = [&](int64_t done) { line.update(done); };
    const TuneResult result = tune_steps(config, world, settings);
    line.finish();
    if (options.json) {
      print_json(tune_json(result));
    } else {
      write_page(tune_text(result) + "\n");
    }
    if (result.not_written) throw Error(*result.not_written);
  });
}

}  // namespace

void add_tune(Command& app) {
  Command* verb = app.add_subcommand("tune", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_settings(options->words)->required();
  verb->add_option("--draws", options->tune.draws, "how often options are drawn at random")
      ->capture_default_str()
      ->between(1, 1e6);
  verb->add_option("--turns", options->tune.turns, "pairs of steps that compare before and after")
      ->capture_default_str()
      ->between(2, 1e6);
  verb->add_option("--settle", options->tune.settle,
                   "seconds that each algorithm runs alone to be among the few; 0: bursts of 2 ms")
      ->capture_default_str()
      ->between(0, 10);
  verb->add_flag("--dry-run", options->dry, "later runs go on with what they have");
  verb->add_flag("--json", options->json, "with every draw, for machines");
  verb->callback([options] { tune(*options); });
}

}  // namespace stretto::cli
