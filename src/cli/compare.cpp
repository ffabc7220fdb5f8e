// stretto compare: did anything become slower?
#include "bench/compare.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/units.h"
#include "cli/text_table.h"
#include "cli/verbs.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Compares two records or directories; exits 1 when something is slower beyond noise\n\n"
    "Examples:\n"
    "  stretto compare before.json after.json    two runs of one configuration\n"
    "  stretto compare runs/old runs/new         every configuration that both hold\n"
    "  stretto compare a b --tolerance 0.03      changes below 3 % are noise\n";

struct Options {
  std::string a, b;
  double tolerance = 0.01;
  bool json = false;
};

std::vector<RunRecord> load(const std::string& path) {
  std::vector<RunRecord> records;
  for (FoundRecord& found : find_records(posix_fs(), path)) {
    records.push_back(std::move(found.record));
  }
  return records;
}

nlohmann::json to_json(const Comparison& c) {
  return {{"label", c.label},
          {"config_hash", c.hash},
          {"verdict", name_of(c.verdict)},
          {"ratio", c.ratio.value},
          {"ratio_low", c.ratio.low},
          {"ratio_high", c.ratio.high},
          {"median_a", c.median_a},
          {"median_b", c.median_b},
          {"runs_a", c.runs_a},
          {"runs_b", c.runs_b},
          {"note", c.note}};
}

void print(const std::vector<Comparison>& all) {
  TextTable table({"run", ">A", ">B", ">change", ">95 % interval", "verdict"});
  for (const Comparison& c : all) {
    const bool timed = c.median_a > 0 && c.median_b > 0;
    const std::string note = c.note.empty() ? "" : " (" + c.note + ")";
    table.add({printable(c.label), c.median_a > 0 ? format_seconds(c.median_a) : "-",
               c.median_b > 0 ? format_seconds(c.median_b) : "-",
               timed ? fmt::format("{:+.1f} %", 100 * (c.ratio.value - 1)) : "-",
               timed ? fmt::format("{:+.1f} to {:+.1f} %", 100 * (c.ratio.low - 1),
                                   100 * (c.ratio.high - 1))
                     : "-",
               name_of(c.verdict) + note});
  }
  fmt::print("{}", table.text());
}

void compare(const Options& options) {
  const auto all = compare_records(load(options.a), load(options.b), options.tolerance);
  if (all.empty()) {
    throw Error(ExitCode::no_input,
                fmt::format("{} and {} hold no configuration in common", printable(options.a),
                            printable(options.b)),
                "compare runs of the same configuration: `stretto bench --from A --out B`");
  }
  if (options.json) {
    nlohmann::json out = nlohmann::json::array();
    for (const Comparison& c : all) out.push_back(to_json(c));
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print(all);
  }
  std::fflush(stdout);
  for (const Comparison& c : all) {
    if (c.verdict == Verdict::slower || c.verdict == Verdict::broken) {
      std::exit(static_cast<int>(ExitCode::regression));
    }
  }
}

}  // namespace

void add_compare(Command& app) {
  Command* verb = app.add_subcommand("compare", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_option("a", options->a, "Record or directory: before")->required();
  verb->add_option("b", options->b, "Record or directory: after")->required();
  verb->add_option("--tolerance", options->tolerance, "Smallest change that counts")
      ->capture_default_str();
  verb->add_flag("--json", options->json, "For machines");
  verb->callback([options] { compare(*options); });
}

}  // namespace stretto::cli
