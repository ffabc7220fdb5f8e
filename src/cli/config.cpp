// stretto config show|check|schema: what a configuration means, and what is wrong with it.
#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "backend/cuda/cuda_options.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/key_text.h"
#include "cli/text_table.h"
#include "cli/verbs.h"
#include "config/reader.h"
#include "config/rules.h"
#include "config/schema.h"
#include "config/serialize.h"
#include "config/suggest.h"
#include "data/token_source.h"
#include "hf/family.h"
#include "train/launch.h"
#include "train/rank_plan.h"

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

void list_keys(const std::string& part) {
  TextTable table({"key", "default", "meaning [values]"});
  std::vector<std::string> names;
  for (const Key& key : config_keys()) {
    names.push_back(key.name);
    if (key.name.find(lower(part)) == std::string::npos) continue;
    table.add({key.name, default_of(key), fmt::format("{} [{}]", key.doc, values_of(key))});
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

// What a run needs of a machine, and what of that this one has not. The configuration may be meant
// for another one, so this is no error.
struct Needs {
  int64_t micro_batch = 1;  // that `auto` chose; 1 where this machine cannot tell
  size_t per_rank = 0;
  size_t host_per_rank = 0;  // beside the memory of a GPU
  std::vector<std::string> missing;
};

Needs needs_of(const Config& config) {
  Needs needs;
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      needs.missing.push_back(fmt::format("{}; {}", error.what(), error.hint()));
    }
  };
  Config fitted = config;
  if (config.device == Device::cuda && cuda_device_count() == 0) {
    needs.missing.emplace_back(
        "there is no GPU that this program can use; `stretto doctor` says why");
  } else {
    attempt([&] { fit_memory(fitted); });
  }
  for (const std::string& path : {config.data.path, config.data.eval_path}) {
    if (!path.empty()) attempt([&] { open_tokens(path, config.data.format); });
  }
  fitted.micro_batch = std::max<int64_t>(1, fitted.micro_batch);
  needs.micro_batch = fitted.micro_batch;
  needs.per_rank = largest_need(fitted);
  needs.host_per_rank = largest_host_need(fitted);
  return needs;
}

// "18.24 MiB per rank"
std::string memory_text(const Config& config, const Needs& needs) {
  std::string text = format_bytes(static_cast<double>(needs.per_rank)) + " per rank";
  if (needs.host_per_rank > 0) {
    text += fmt::format(" and {} of host memory",
                        format_bytes(static_cast<double>(needs.host_per_rank)));
  }
  if (config.micro_batch == kAuto) text += fmt::format(" with micro_batch={}", needs.micro_batch);
  return text;
}

// Broken rules, and, as advice, what will keep the trained model from being exported.
std::vector<Finding> all_findings(const Config& config) {
  std::vector<Finding> findings = check_config(config);
  const bool invalid = std::ranges::count(findings, Severity::error, &Finding::severity) > 0;
  if (invalid) return findings;
  for (Finding& finding : choose_family(config.model).findings) {
    finding.severity = Severity::advice;
    findings.push_back(std::move(finding));
  }
  return findings;
}

void check(const Options& options) {
  const ResolvedConfig resolved = load_config(options.words);
  const std::vector<Finding> findings = all_findings(resolved.config);
  size_t errors = 0, advice = 0;
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    const bool error = finding.severity == Severity::error;
    // Advice is about values that errors may change.
    if (!error && errors > 0) break;
    ++(error ? errors : advice);
    if (options.json) {
      list.push_back(finding_json(finding, resolved));
    } else {
      print_finding(finding, resolved);
    }
  }
  const bool some_left = leave_rules_out(findings);
  nlohmann::json answer = {
      {"ok", errors == 0}, {"findings", list}, {"all_rules_checked", !some_left}};
  std::string verdict =
      fmt::format("not valid: {}{}\n", counted(static_cast<int64_t>(errors), "error"),
                  some_left ? "; other rules are checked once these hold" : "");
  if (errors == 0) {
    const Needs needs = needs_of(resolved.config);
    answer["micro_batch"] = needs.micro_batch;
    answer["memory_per_rank"] = needs.per_rank;
    answer["host_memory_per_rank"] = needs.host_per_rank;
    answer["missing_here"] = needs.missing;
    verdict = fmt::format("valid: 0 errors, {} advice; {}\n", advice,
                          memory_text(resolved.config, needs));
    for (const std::string& what : needs.missing) verdict += "not on this machine: " + what + "\n";
  }
  if (options.json) {
    print_json(answer);
  } else {
    fmt::print("{}", verdict);
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
