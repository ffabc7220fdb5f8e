// stretto verify: every topology against one process.
#include "train/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text_table.h"
#include "cli/page.h"
#include "cli/verbs.h"
#include "comm/launch.h"
#include "config/reader.h"
#include "config/rules.h"
#include "train/signals.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Proves that every topology trains the same model\n\n"
    "Trains with dp, tp, pp, ZeRO stages, schedules and recomputation on thread ranks, same seed "
    "and\n"
    "data, and compares losses and gradient norms with one process, step by step. Then saves on "
    "six of\n"
    "the topologies half-way and goes on with each save on each of them.\n\n"
    "Examples:\n"
    "  stretto verify configs/runs/tiny.yaml                 up to 4 ranks, 10 steps each\n"
    "  stretto verify configs/runs/tiny.yaml --steps 50 --ranks 8\n"
    "  stretto verify configs/runs/tiny.yaml precision=amp_bf16\n"
    "  stretto verify configs/runs/tiny.yaml --json          differences of every step\n";

struct Options {
  std::vector<std::string> words;
  int64_t steps = 10;
  int64_t ranks = 4;
  bool json = false;
};

const char* verdict(const VerifyRow& row) {
  if (!row.passed()) return "FAILED";
  return row.bit_equal ? "bit-equal" : "ok";
}

// "3.1e-07 (step 4)": the largest one and where it was.
std::string largest_text(const std::vector<double>& differences) {
  const auto most = std::max_element(differences.begin(), differences.end());
  if (most == differences.end()) return "-";
  if (*most == 0) return "0";
  return fmt::format("{:.1e} (step {})", *most, most - differences.begin() + 1);
}

std::string limit_text(const Limits& limits) {
  return fmt::format("{:g}, {:g}", limits.loss, limits.grad_norm);
}

// "0.001, 0.005" or, with limits of its own for the first step, "1e-06, 0.001, then 0.001, 0.005".
std::string limit_text(const Tolerance& tolerance) {
  if (tolerance.exact()) return "0";
  return (tolerance.first_step ? limit_text(*tolerance.first_step) + ", then " : "") +
         limit_text(tolerance.any_step);
}

void print_table(const std::vector<VerifyRow>& rows, const std::vector<LeftOut>& left_out) {
  TextTable table(
      {"topology", ">ranks", "compared with", ">loss", ">gradient norm", ">limits", "result"});
  std::set<std::pair<std::string, std::string>> reasons;
  for (const VerifyRow& row : rows) {
    table.add({row.name, fmt::format("{}", row.ranks), row.against,
               largest_text(row.loss_differences), largest_text(row.norm_differences),
               limit_text(row.tolerance), verdict(row)});
    reasons.emplace(limit_text(row.tolerance), row.tolerance.reason);
  }
  std::string page = fmt::format(
      "{}\nLargest relative differences over all steps. Limits (loss, gradient norm):\n",
      table.text(output_width()));
  for (const auto& [limit, reason] : reasons) page += fmt::format("  {:<32}  {}\n", limit, reason);
  for (const VerifyRow& row : rows) {
    if (!row.error.empty()) page += fmt::format("{}: {}\n", row.name, row.error);
  }
  if (!left_out.empty()) page += "Left out, since they do not fit this configuration:\n";
  for (const LeftOut& one : left_out) page += fmt::format("  {:<32}  {}\n", one.name, one.why);
  std::vector<std::string> failed;
  for (const VerifyRow& row : rows) {
    if (!row.passed()) failed.push_back(row.name);
  }
  page +=
      fmt::format("{} of {} runs train the same model{}{}\n", rows.size() - failed.size(),
                  rows.size(), failed.empty() ? "" : "; these do not: ", fmt::join(failed, "; "));
  write_page(page);
}

void print_json(const Options& options, const std::vector<VerifyRow>& rows,
                const std::vector<LeftOut>& left_out) {
  nlohmann::ordered_json out = {{"steps", options.steps},
                                {"rows", nlohmann::ordered_json::array()},
                                {"left_out", nlohmann::ordered_json::array()}};
  for (const LeftOut& one : left_out) {
    out["left_out"].push_back({{"topology", one.name}, {"why", one.why}});
  }
  for (const VerifyRow& row : rows) {
    const Limits first = row.tolerance.first_step.value_or(row.tolerance.any_step);
    out["rows"].push_back({{"topology", row.name},
                           {"ranks", row.ranks},
                           {"against", row.against},
                           {"max_loss_difference", row.max_loss_difference()},
                           {"max_grad_norm_difference", row.max_norm_difference()},
                           {"loss_differences", row.loss_differences},
                           {"grad_norm_differences", row.norm_differences},
                           {"loss_limit", row.tolerance.any_step.loss},
                           {"grad_norm_limit", row.tolerance.any_step.grad_norm},
                           {"first_loss_limit", first.loss},
                           {"first_grad_norm_limit", first.grad_norm},
                           {"reason", row.tolerance.reason},
                           {"bit_equal", row.bit_equal},
                           {"passed", row.passed()},
                           {"error", row.error}});
  }
  fmt::print("{}\n", out.dump(2));
}

void verify(const Options& options) {
  if (options.steps < 1 || options.ranks < 1 || options.ranks > 64) {
    throw Error(ExitCode::usage, fmt::format("--steps {} --ranks {}", options.steps, options.ranks),
                "use at least one step and 1 to 64 ranks");
  }
  const LaunchInfo launch = detect_launch();
  if (launch.wants_mpi() && launch.size > 1) {
    throw Error(ExitCode::usage,
                fmt::format("verify is one process whose ranks are threads; {} started {} of them",
                            name_of(launch.launcher), launch.size),
                "run it alone; --ranks says how many ranks a topology may have");
  }
  const ResolvedConfig resolved = load_config(options.words);
  require_valid(resolved);
  std::vector<LeftOut> left_out;
  const auto cases = verify_grid(resolved.config, options.ranks, options.steps, &left_out);
  const bool several = std::any_of(cases.begin(), cases.end(), [](const VerifyCase& one) {
    return one.config.world_size() > 1;
  });
  if (options.ranks > 1 && !several) {
    throw Error(ExitCode::bad_config,
                fmt::format("no topology of 2 to {} ranks fits {} heads, {} layers and a global "
                            "batch of {}",
                            options.ranks, resolved.config.model.heads,
                            resolved.config.model.layers, resolved.config.global_batch),
                "use a model or a batch that can be cut, or --ranks 1 for one process alone");
  }
  // Cases that others are compared with give no row.
  const auto compared = std::count_if(cases.begin(), cases.end(),
                                      [](const VerifyCase& one) { return !one.against.empty(); });
  int64_t done = 0;
  install_stop_signals();  // when asked to stop, removes what was saved half-way
  const auto rows = run_verify(cases, [&](const VerifyRow& row) {
    spdlog::info("[{}/{}] {}: {}", ++done, compared, row.name, verdict(row));
  });
  if (options.json) {
    print_json(options, rows, left_out);
  } else {
    print_table(rows, left_out);
  }
  const bool good =
      std::all_of(rows.begin(), rows.end(), [](const VerifyRow& row) { return row.passed(); });
  if (!good) throw Answered{ExitCode::regression};
}

}  // namespace

void add_verify(Command& app) {
  Command* verb = app.add_subcommand("verify", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_settings(options->words)->required();
  verb->add_option("--steps", options->steps, "steps of each run")->capture_default_str();
  verb->add_option("-n,--ranks", options->ranks, "largest topology")->capture_default_str();
  verb->add_flag("--json", options->json, "the differences of every step, for machines");
  verb->callback([options] { verify(*options); });
}

}  // namespace stretto::cli
