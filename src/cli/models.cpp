// stretto models [NAME]: the registry, with exact parameter counts and shapes.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "account/parameters.h"
#include "base/units.h"
#include "cli/candidates.h"
#include "cli/verbs.h"
#include "config/registry.h"

namespace stretto::cli {
namespace {

const char* position_word(const ModelShape& model) {
  return model.position_kind == Positions::learned ? "learned" : "alibi";
}

nlohmann::json model_json(const RegistryModel& model) {
  const ModelShape& m = model.shape;
  return {{"name", m.name},
          {"family", model.family},
          {"parameters", parameter_count(m)},
          {"layers", m.layers},
          {"hidden", m.hidden},
          {"heads", m.heads},
          {"head_size", m.head_size()},
          {"ffn", m.ffn},
          {"vocab", m.vocab},
          {"positions", m.positions},
          {"position_kind", position_word(m)},
          {"bias", m.biases.mlp},
          {"tied_embedding", m.tied_embedding}};
}

void print_all() {
  std::string family;
  for (const RegistryModel& model : registry_models()) {
    const ModelShape& m = model.shape;
    if (model.family != family) {
      fmt::print("{}{}: {}\n", family.empty() ? "" : "\n", model.family, model.about);
      fmt::print("  {:<27}{:>16}{:>8}{:>8}{:>7}{:>9}{:>11}\n", "name", "parameters", "layers",
                 "hidden", "heads", "vocab", "positions");
      family = model.family;
    }
    fmt::print("  {:<27}{:>16}{:>8}{:>8}{:>7}{:>9}{:>11}\n", m.name,
               with_commas(parameter_count(m)), m.layers, m.hidden, m.heads, m.vocab, m.positions);
  }
}

void print_one(const RegistryModel& model) {
  const ModelShape& m = model.shape;
  const int64_t total = parameter_count(m);
  fmt::print("{}  ({})\n", m.name, model.about);
  fmt::print("  parameters      {} ({})\n", with_commas(total),
             format_count(static_cast<double>(total)));
  fmt::print("  layers          {}\n  hidden          {}\n", m.layers, m.hidden);
  fmt::print("  heads           {} of {}\n", m.heads, m.head_size());
  fmt::print("  feed-forward    {}\n  vocabulary      {}\n", m.ffn, m.vocab);
  fmt::print("  positions       {}, {}\n", m.positions, position_word(m));
  fmt::print("  biases          {}\n", m.biases.mlp ? "yes" : "no");
  fmt::print("  tied embedding  {}\n", m.tied_embedding ? "yes" : "no");
  fmt::print("  defined in      {}\n", model.file);
}

void show(const std::string& name, bool json) {
  if (name.empty()) {
    if (!json) return print_all();
    nlohmann::json list = nlohmann::json::array();
    for (const RegistryModel& model : registry_models()) list.push_back(model_json(model));
    print_json(list);
    return;
  }
  find_model(name);  // throws for an unknown name, and names similar ones
  const RegistryModel& model = *lookup_model(name);
  if (!json) return print_one(model);
  print_json(model_json(model));
}

}  // namespace

void add_models(Command& app) {
  struct Options {
    std::string name;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand(
      "models",
      "The models known by name\n\n"
      "Examples:\n"
      "  stretto models                  every known model with its exact parameter count\n"
      "  stretto models gpt2-124m        one model in full\n"
      "  stretto models --json           for scripts\n");
  verb->add_option("NAME", options->name, "One model")->offers(known_models);
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options] { show(options->name, options->json); });
}

}  // namespace stretto::cli
