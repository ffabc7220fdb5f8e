// stretto compare: did anything become slower?
#include "bench/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/log.h"
#include "base/terminal.h"
#include "base/text_table.h"
#include "base/units.h"
#include "bench/survey.h"
#include "bench/turns.h"
#include "cli/page.h"
#include "cli/verbs.h"
#include "config/reader.h"
#include "config/rules.h"
#include "train/launch.h"
#include "train/signals.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Compares two records, directories or programs; exits 1 when something is slower beyond "
    "noise\n\n"
    "Examples:\n"
    "  stretto compare before.json after.json    two runs of one configuration\n"
    "  stretto compare runs/old runs/new         every configuration that both hold\n"
    "  stretto compare a b --tolerance 0.03      changes below 3 % are noise\n"
    "  stretto compare old/stretto new/stretto --bench tiny-1m seq_len=64\n"
    "                                            two builds, step by step in turns: what disturbs "
    "the machine disturbs both\n";

struct Options {
  std::string a, b, out;
  std::vector<std::string> bench;
  std::optional<int64_t> runs, steps;
  std::optional<double> seconds;
  double tolerance = 0.01;
  bool json = false;
};

// Existing records are compared as they are: nothing is run or kept.
void refuse_options_of_bench(const Options& o) {
  std::vector<const char*> given;
  if (o.runs) given.push_back("--runs");
  if (o.steps) given.push_back("--steps");
  if (o.seconds) given.push_back("--seconds");
  if (!o.out.empty()) given.push_back("--out");
  if (given.empty()) return;
  throw Error(ExitCode::usage, fmt::format("{} without --bench", fmt::join(given, ", ")),
              "leave them out to compare records, or add --bench CONFIG to run two programs");
}

std::vector<RunRecord> load(const std::string& path) {
  std::vector<RunRecord> records;
  for (FoundRecord& found : find_records(posix_fs(), path)) {
    records.push_back(std::move(found.record));
  }
  return records;
}

// Adds the launcher where one configuration was run with several, which would all have the same
// name.
std::string named(const std::string& label, const std::string& launcher) {
  const bool usual = launcher.empty() || launcher == "threads";
  return printable(usual ? label : fmt::format("{} ({})", label, launcher));
}

// What only one side contains cannot be compared, but should not go unmentioned.
void warn_of_lonely(const std::vector<RunRecord>& side, const std::vector<RunRecord>& other,
                    const std::string& name) {
  for (const Lonely& run : not_compared(side, other)) {
    spdlog::warn("{} is only in {}: not compared", named(run.name, run.record->launcher),
                 printable(name));
  }
}

// A run that was not timed has no time and no ratio: null.
nlohmann::json to_json(const Comparison& c) {
  const auto known = [](bool is, double value) {
    return is ? nlohmann::json(value) : nlohmann::json();
  };
  const bool a = c.median_a > 0, b = c.median_b > 0;
  return {{"label", c.label},
          {"config_hash", c.hash},
          {"launcher", c.launcher},
          {"verdict", name_of(c.verdict)},
          {"ratio", known(a && b, c.ratio.value)},
          {"ratio_low", known(a && b, c.ratio.low)},
          {"ratio_high", known(a && b, c.ratio.high)},
          {"median_a", known(a, c.median_a)},
          {"median_b", known(b, c.median_b)},
          {"runs_a", c.runs_a},
          {"runs_b", c.runs_b},
          {"in_turns", c.in_turns},
          {"note", c.note}};
}

void print(const std::vector<Comparison>& all) {
  TextTable table({"run", ">A", ">B", ">change", ">95 % interval", "verdict"});
  for (const Comparison& c : all) {
    const bool timed = c.median_a > 0 && c.median_b > 0;
    const std::string note = c.note.empty() ? "" : " (" + c.note + ")";
    table.add({named(c.label, c.launcher), c.median_a > 0 ? format_seconds(c.median_a) : "-",
               c.median_b > 0 ? format_seconds(c.median_b) : "-",
               timed ? format_change(c.ratio.value - 1, 1) : "-",
               timed ? fmt::format("{:+.1f} to {:+.1f} %", 100 * (c.ratio.low - 1),
                                   100 * (c.ratio.high - 1))
                     : "-",
               name_of(c.verdict) + note});
  }
  write_page(table.text(output_width()));
  const auto in_turns = [](const Comparison& c) { return c.in_turns; };
  if (std::any_of(all.begin(), all.end(), in_turns)) {
    write_page(
        "A and B are medians of all steps; the change is that between neighbouring steps.\n");
  }
}

// Runs the configuration with both programs in turns, starting them several times. Records go to
// `directory`/a and /b.
void bench_in_turns(const Options& options, const std::string& directory) {
  const int64_t runs = options.runs.value_or(5), steps = options.steps.value_or(kTimedSteps);
  const double seconds = options.seconds.value_or(kTimedSeconds);
  if (runs < 1 || steps < 1 || !(seconds >= 0)) {
    throw Error(ExitCode::usage,
                fmt::format("--runs {} --steps {} --seconds {}", runs, steps, seconds),
                "at least one run of one step; 5 runs of 2 seconds find a few percent");
  }
  if (posix_fs().info(join_path(directory, "a"))) {
    throw Error(ExitCode::cannot_create,
                fmt::format("--out {}: holds records already", printable(directory)),
                "name a new directory, or compare the old records: `stretto compare DIR/a DIR/b`");
  }
  ResolvedConfig resolved = load_config(options.bench);
  fit_world(resolved, available_ranks(0));
  require_valid(resolved);
  const Config& config = resolved.config;
  for (const char* side : {"a", "b"}) make_dirs(posix_fs(), join_path(directory, side));
  const std::string machine = directory + "/machine.json";
  write_file_atomic(posix_fs(), machine, to_json(survey_machine(false)).dump());
  const std::string pair = fmt::format("{} {}", utc_now(), getpid());
  install_stop_signals();
  Turns turns{steps, seconds, config.world_size() * config.threads, 0,
              [] { return stop_signal() != 0; }};
  for (int64_t run = 0; run < runs; ++run) {
    const auto player = [&](const std::string& program, const char* side) {
      const std::string base = fmt::format("{}/{}/run{}", directory, side, run);
      Player p{{std::filesystem::absolute(program), "bench"}, base + ".log"};
      p.argv.insert(p.argv.end(), options.bench.begin(), options.bench.end());
      for (const std::string& word :
           {std::string("--machine"), machine, std::string("--out"), base + ".json",
            std::string("--in-turns"), fmt::format("{}, run {}", pair, run)}) {
        p.argv.push_back(word);
      }
      return p;
    };
    run_in_turns(player(options.a, "a"), player(options.b, "b"), turns);
    turns.first_core += turns.cores;
  }
}

std::vector<Comparison> compared(const Options& options) {
  if (options.bench.empty()) {
    refuse_options_of_bench(options);
    const std::vector<RunRecord> a = load(options.a), b = load(options.b);
    const std::vector<Comparison> all = compare_records(a, b, options.tolerance);
    if (all.empty()) return all;  // one error covers all of them
    warn_of_lonely(a, b, options.a);
    warn_of_lonely(b, a, options.b);
    return all;
  }
  std::string directory = options.out;
  if (directory.empty()) {
    directory = make_temp_dir("stretto-compare-", "room for records, or name one with --out");
  }
  struct Cleaning {
    std::string directory;
    ~Cleaning() {
      std::error_code ignored;
      if (!directory.empty()) std::filesystem::remove_all(directory, ignored);
    }
  } const cleaning{options.out.empty() ? directory : ""};
  bench_in_turns(options, directory);
  return compare_records(load(directory + "/a"), load(directory + "/b"), options.tolerance);
}

void compare(const Options& options) {
  const auto all = compared(options);
  if (all.empty()) {
    throw Error(ExitCode::no_input,
                fmt::format("{} and {} hold no configuration in common", printable(options.a),
                            printable(options.b)),
                "compare runs of the same configuration (`stretto bench --from A --out B`); "
                "`stretto collect DIR` and `stretto report DIR` show different ones side by side");
  }
  if (options.json) {
    nlohmann::json out = nlohmann::json::array();
    for (const Comparison& c : all) out.push_back(to_json(c));
    print_json(out);
  } else {
    print(all);
  }
  for (const Comparison& c : all) {
    if (c.verdict == Verdict::slower || c.verdict == Verdict::broken) {
      throw Answered{ExitCode::regression};
    }
  }
}

}  // namespace

void add_compare(Command& app) {
  Command* verb = app.add_subcommand("compare", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_option("a", options->a, "Record, directory or program: before")->required()->file();
  verb->add_option("b", options->b, "Record, directory or program: after")->required()->file();
  verb->add_option("--bench", options->bench, "Configuration that both programs run, in turns")
      ->settings();
  verb->add_option("--runs", options->runs, "With --bench: fresh starts of both (5)");
  verb->add_option("--steps", options->steps, "With --bench: steps of a run, at least (12)");
  verb->add_option("--seconds", options->seconds, "With --bench: seconds of a run, at least (2)");
  verb->add_option("-o,--out", options->out, "With --bench: directory that keeps the records")
      ->directory();
  verb->add_option("--tolerance", options->tolerance, "Smallest change that counts")
      ->capture_default_str()
      ->between(0, 1e6);
  verb->add_flag("--json", options->json, "For machines");
  verb->callback([options] { compare(*options); });
}

}  // namespace stretto::cli
