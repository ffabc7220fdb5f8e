// stretto tune: chooses the algorithms of matrix products by the time of whole steps.
#include "train/tune.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "cli/progress.h"
#include "cli/text_table.h"
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

double gain(const TuneResult& r) { return r.before / r.after - 1; }

void print_table(const TuneResult& r) {
  TextTable table({"choice", ">options", ">before", ">after", ">of a step"});
  for (size_t i = 0; i < r.choices.size(); ++i) {
    const Tunable& choice = r.choices[i];
    const auto& effects = r.effects[i];
    const double less =
        effects[static_cast<size_t>(r.chosen[i])] - effects[static_cast<size_t>(choice.now)];
    table.add({choice.name, fmt::format("{}", choice.options), fmt::format("{}", choice.now),
               fmt::format("{}", r.chosen[i]), fmt::format("{:+.2f} %", 100 * less / r.before)});
  }
  fmt::print(
      "{}\nThe last column is an estimate, mostly noise for a single choice; what counts is\n"
      "a step before {}, after {}, in turn: {:+.2f} % tokens/s, standard error {:.2f} %\n{}\n",
      table.text(), format_seconds(r.before), format_seconds(r.after), 100 * gain(r),
      100 * r.uncertainty, r.kept ? "later runs use it" : "not kept");
}

void print_json(const TuneResult& r) {
  nlohmann::ordered_json out = {{"seconds_before", r.before},
                                {"seconds_after", r.after},
                                {"gain", gain(r)},
                                {"standard_error", r.uncertainty},
                                {"kept", r.kept},
                                {"choices", nlohmann::ordered_json::array()},
                                {"draws", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < r.choices.size(); ++i) {
    out["choices"].push_back({{"name", r.choices[i].name},
                              {"before", r.choices[i].now},
                              {"after", r.chosen[i]},
                              {"effects", r.effects[i]}});
  }
  for (const auto& draw : r.draws) {
    out["draws"].push_back({{"options", draw.options}, {"seconds", draw.seconds}});
  }
  fmt::print("{}\n", out.dump(2));
}

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
    options.json ? print_json(result) : print_table(result);
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
