// stretto config show|check|schema: what a configuration means, and what is wrong with it.
#include <fmt/color.h>
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "cli/verbs.h"
#include "config/reader.h"
#include "config/rules.h"
#include "config/serialize.h"

namespace stretto::cli {
namespace {

struct Options {
  std::vector<std::string> words;
  bool json = false;
};

void show(const Options& options) {
  const ResolvedConfig resolved = load_config(options.words);
  if (options.json) {
    const nlohmann::json document = {{"config", to_json(resolved.config)},
                                     {"origins", origins_json(resolved)}};
    print_json(document);
  } else {
    fmt::print("{}", to_yaml(resolved));
  }
}

nlohmann::json finding_json(const Finding& finding, const ResolvedConfig& resolved) {
  return {{"severity", finding.severity == Severity::error ? "error" : "advice"},
          {"rule", finding.rule},
          {"key", finding.key},
          {"place", resolved.origin_of(finding.key).text()},
          {"message", finding.message},
          {"fix", finding.fix}};
}

void print_finding(const Finding& finding, const ResolvedConfig& resolved) {
  const bool error = finding.severity == Severity::error;
  const bool colour = use_colour(stdout_is_terminal());
  const auto style = fmt::fg(error ? fmt::terminal_color::red : fmt::terminal_color::yellow);
  const std::string label = fmt::format("{} [{}]", error ? "error" : "advice", finding.rule);
  fmt::print("{}  {}\n  fix: {}\n", colour ? fmt::format(style, "{}", label) : label,
             describe(finding, resolved), finding.fix);
}

void check(const Options& options) {
  const ResolvedConfig resolved = load_config(options.words);
  const std::vector<Finding> findings = check_config(resolved.config);
  size_t errors = 0;
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::error) ++errors;
    if (options.json) {
      list.push_back(finding_json(finding, resolved));
    } else {
      print_finding(finding, resolved);
    }
  }
  if (options.json) {
    print_json(nlohmann::json({{"ok", errors == 0}, {"findings", list}}));
  } else {
    fmt::print("{}: {} error{}, {} advice\n", errors == 0 ? "valid" : "not valid", errors,
               errors == 1 ? "" : "s", findings.size() - errors);
  }
  std::fflush(stdout);
  if (errors > 0) {
    throw Error(ExitCode::bad_config,
                fmt::format("{} rule{} broken", errors, errors == 1 ? " is" : "s are"),
                "follow the fixes above");
  }
}

void add_words(Command* verb, const std::shared_ptr<Options>& options) {
  verb->add_option("WORDS", options->words, "YAML files, key=value overrides, or a model name")
      ->required();
  verb->add_flag("--json", options->json, "Print JSON");
}

}  // namespace

void add_config(Command& app) {
  Command* verb = app.add_subcommand(
      "config",
      "Examples:\n"
      "  stretto config show configs/runs/tiny.yaml train.lr=3e-4   resolved, with origins\n"
      "  stretto config check my.yaml parallel.tp=4                 every rule; exit 0 or 78\n"
      "  stretto config schema > stretto.schema.json                completion in editors\n\n"
      "Show, check or describe configurations");
  verb->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  Command* show_verb = verb->add_subcommand("show", "The resolved values and their origins");
  add_words(show_verb, options);
  show_verb->callback([options] { show(*options); });

  Command* check_verb = verb->add_subcommand("check", "Check every rule without running");
  add_words(check_verb, options);
  check_verb->callback([options] { check(*options); });

  Command* schema_verb = verb->add_subcommand("schema", "JSON Schema (draft 2020-12)");
  schema_verb->callback([] { print_json(config_schema()); });
}

}  // namespace stretto::cli
