// stretto config show|check|schema: what a configuration means, and what is wrong with it.
#include <fmt/color.h>
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/text_table.h"
#include "cli/verbs.h"
#include "config/reader.h"
#include "config/rules.h"
#include "config/schema.h"
#include "config/serialize.h"
#include "config/suggest.h"

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

// What may follow the =: "steps", "f32 or bf16", "MHz or auto".
std::string values_of(const Key& key) {
  if (key.type == ValueType::flag) return "true or false";
  if (!key.words.empty()) return join_or(key.words);
  const bool number = key.type != ValueType::text;
  if (number && !key.special.empty()) return fmt::format("{} or {}", key.unit, key.special);
  if (key.type == ValueType::bytes) return "bytes, such as 80GiB";
  if (key.type == ValueType::seconds) return "seconds, or such as 30min";
  return number ? (key.unit.empty() ? "a number" : key.unit) : "text";
}

void list_keys(const std::string& part) {
  TextTable table({"key", "default", "meaning [values]"});
  std::vector<std::string> names;
  const Config defaults;
  for (const Key& key : config_keys()) {
    names.push_back(key.name);
    if (key.name.find(lower(part)) == std::string::npos) continue;
    // Without a model, the defaults of a model's fields mean nothing.
    const bool of_model = key.name.starts_with("model.");
    table.add({key.name, of_model ? "" : render_key(key.name, defaults),
               fmt::format("{} [{}]", key.doc, values_of(key))});
  }
  if (table.empty()) {
    throw Error(ExitCode::usage, fmt::format("no key has '{}' in its name", printable(part)),
                did_you_mean(part, names, "`stretto config keys` lists all"));
  }
  fmt::print("{}", table.text());
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
    fmt::print("{}: {}, {} advice\n", errors == 0 ? "valid" : "not valid",
               counted(static_cast<int64_t>(errors), "error"), findings.size() - errors);
  }
  std::fflush(stdout);
  if (errors > 0) {
    throw Error(ExitCode::bad_config,
                fmt::format("{} rule{} broken", errors, errors == 1 ? " is" : "s are"),
                "follow the fixes above");
  }
}

void add_words(Command* verb, const std::shared_ptr<Options>& options) {
  verb->add_settings(options->words)->required();
  verb->add_flag("--json", options->json, "Print JSON");
}

}  // namespace

void add_config(Command& app) {
  Command* verb = app.add_subcommand(
      "config",
      "Show, check or describe configurations\n\n"
      "Examples:\n"
      "  stretto config keys train                                  what can be set, and to what\n"
      "  stretto config show configs/runs/tiny.yaml train.lr=3e-4   resolved, with origins\n"
      "  stretto config check configs/runs/tiny.yaml parallel.tp=4  every rule; exit 0 or 78\n"
      "  stretto config schema > stretto.schema.json                completion in editors\n");
  verb->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  const auto part = std::make_shared<std::string>();
  Command* keys_verb =
      verb->add_subcommand("keys",
                           "Every key: default, meaning, what it takes\n\n"
                           "Examples:\n"
                           "  stretto config keys               all of them\n"
                           "  stretto config keys parallel      those with this in their name\n");
  keys_verb->add_option("PART", *part, "Part of the name");
  keys_verb->callback([part] { list_keys(*part); });

  Command* show_verb =
      verb->add_subcommand("show",
                           "The resolved values and their origins\n\n"
                           "Examples:\n"
                           "  stretto config show configs/runs/tiny.yaml train.lr=3e-4\n"
                           "  stretto config show mpt-125m --json\n");
  add_words(show_verb, options);
  show_verb->callback([options] { show(*options); });

  Command* check_verb = verb->add_subcommand(
      "check",
      "Check every rule without running\n\n"
      "Examples:\n"
      "  stretto config check configs/runs/tiny.yaml parallel.tp=4   exit code 0 or 78\n"
      "  stretto config check mpt-125m micro_batch=3 --json\n");
  add_words(check_verb, options);
  check_verb->callback([options] { check(*options); });

  Command* schema_verb = verb->add_subcommand(
      "schema",
      "JSON Schema (draft 2020-12)\n\n"
      "Examples:\n"
      "  stretto config schema > stretto.schema.json   completion in editors\n");
  schema_verb->callback([] { print_json(config_schema()); });
}

}  // namespace stretto::cli
