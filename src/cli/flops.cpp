// stretto flops: what a configuration costs, by operator, under every convention.
#include "account/flops.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "account/parameters.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text_table.h"
#include "base/units.h"
#include "cli/memory_table.h"
#include "cli/page.h"
#include "cli/verbs.h"
#include "config/reader.h"
#include "config/rules.h"
#include "train/rank_plan.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Parameters, FLOPs by operator under every convention, and memory by term\n\n"
    "Examples:\n"
    "  stretto flops mpt-125m                            a model of `stretto models`\n"
    "  stretto flops configs/runs/tiny.yaml seq_len=64   a run, with changes\n"
    "  stretto flops mpt-7b parallel.tp=2 parallel.pp=4 --json\n";

struct Work {
  Config config;
  int64_t seq = 0;
  double tokens = 0;  // per iteration

  explicit Work(const Config& c)
      : config(c),
        seq(c.sequence_length()),
        tokens(static_cast<double>(c.global_batch) * static_cast<double>(seq)) {}

  FlopsPerToken flops(Convention convention) const {
    return flops_per_token(convention, config.model, seq, config.activation_checkpointing,
                           run_cut(config));
  }
};

struct ParameterGroups {
  int64_t tokens = 0, positions = 0, layers = 0, other = 0;
};

ParameterGroups parameter_groups(const ModelShape& model) {
  ParameterGroups groups;
  for (const ParameterSpec& spec : parameter_list(model)) {
    int64_t& group = spec.role == Role::tokens      ? groups.tokens
                     : spec.role == Role::positions ? groups.positions
                     : spec.role == Role::layer     ? groups.layers
                                                    : groups.other;
    group += spec.count();
  }
  return groups;
}

void print_head(const Work& work) {
  const ModelShape& m = work.config.model;
  const ParameterGroups groups = parameter_groups(m);
  write_page(fmt::format(
      "{}: {}, {} hidden, {}, {} vocabulary\n"
      "sequence {}, global batch {} ({} tokens), {}, checkpointing {}\n\n"
      "parameters   {} (tokens {}, positions {}, layers {}, rest {})\n\n",
      printable(m.name), counted(m.layers, "layer"), m.hidden, counted(m.heads, "head"), m.vocab,
      work.seq, work.config.global_batch, with_commas(static_cast<int64_t>(work.tokens)),
      name_of(work.config.precision), name_of(work.config.activation_checkpointing),
      with_commas(parameter_count(m)), with_commas(groups.tokens), with_commas(groups.positions),
      with_commas(groups.layers), with_commas(groups.other)));
}

struct Unit {
  const char* name;
  double flops;
};

Unit unit_for(double flops) {
  constexpr Unit kUnits[] = {{"PFLOP", 1e15}, {"TFLOP", 1e12}, {"GFLOP", 1e9}, {"MFLOP", 1e6}};
  for (const Unit& unit : kUnits) {
    if (flops >= unit.flops) return unit;
  }
  return kUnits[3];
}

// `scale`: the number of tokens for which FLOPs are printed.
void print_flops(const Work& work, const char* title, double scale) {
  const auto [name, unit] = unit_for(work.flops(Convention::mpt).model_total() * scale);
  std::vector<std::string> headings = {""};
  std::vector<FlopsPerToken> flops;
  for (const Convention convention : kConventions) {
    headings.push_back(std::string(">") + name_of(convention));
    flops.push_back(work.flops(convention));
  }
  TextTable table(headings);
  // `counts`: the FLOPs of a row, per token.
  const auto add = [&](const char* row, int digits, const auto& counts) {
    std::vector<std::string> cells = {row};
    for (const FlopsPerToken& f : flops) {
      cells.push_back(fmt::format("{:.{}g}", counts(f) * scale / unit, digits));
    }
    table.add(std::move(cells));
  };
  add("model", 5, [](const FlopsPerToken& f) { return f.model_total(); });
  add("+ recompute", 5, [](const FlopsPerToken& f) { return f.hardware_total(); });
  for (int i = 0; i < kProducts; ++i) {
    const auto product = static_cast<Product>(i);
    add(name_of(product), 4,
        [&](const FlopsPerToken& f) { return f.model[product] + f.recompute[product]; });
  }
  add("other", 4, [](const FlopsPerToken& f) { return f.model.other + f.recompute.other; });
  write_page(fmt::format("{} {}; the parts below include recomputation\n{}\n", name, title,
                         table.text(output_width(), "  ")));
}

nlohmann::json split_json(const FlopsSplit& split) {
  nlohmann::json out = {{"total", split.total()},
                        {"without_attention", split.without_attention()},
                        {"other", split.other}};
  for (int i = 0; i < kProducts; ++i) {
    out[name_of(static_cast<Product>(i))] = split[static_cast<Product>(i)];
  }
  return out;
}

nlohmann::json work_json(const Work& work) {
  const ParameterGroups groups = parameter_groups(work.config.model);
  nlohmann::json out = {{"model", work.config.model.name},
                        {"seq_len", work.seq},
                        {"tokens_per_iteration", work.tokens},
                        {"checkpointing", name_of(work.config.activation_checkpointing)},
                        {"parameters",
                         {{"total", parameter_count(work.config.model)},
                          {"tokens", groups.tokens},
                          {"positions", groups.positions},
                          {"layers", groups.layers},
                          {"rest", groups.other}}}};
  for (Convention convention : kConventions) {
    const FlopsPerToken flops = work.flops(convention);
    out["conventions"][name_of(convention)] = {
        {"model_flops_per_token", split_json(flops.model)},
        {"recompute_flops_per_token", split_json(flops.recompute)},
        {"model_flops_per_iteration", flops.model_total() * work.tokens},
        {"hardware_flops_per_iteration", flops.hardware_total() * work.tokens}};
  }
  return out;
}

void run_flops(const std::vector<std::string>& words, bool json) {
  const ResolvedConfig resolved = load_config(words);
  require_valid(resolved);
  const Work work(resolved.config);
  if (json) {
    nlohmann::json out = work_json(work);
    out["memory"] = memory_json(stage_memory(work.config));
    print_json(out);
    return;
  }
  print_head(work);
  print_flops(work, "per token", 1);
  print_flops(work, "per iteration", work.tokens);
  write_page(memory_text(work.config, stage_memory(work.config), output_width()));
}

}  // namespace

void add_flops(Command& app) {
  struct Options {
    std::vector<std::string> words;
    bool json = false;
  };
  Command* verb = app.add_subcommand("flops", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_settings(options->words)->required();
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] { run_flops(options->words, options->json); });
}

}  // namespace stretto::cli
