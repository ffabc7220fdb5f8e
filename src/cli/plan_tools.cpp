// stretto plan exam, clusters, calibrate.
#include "cli/plan_tools.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/shell_text.h"
#include "base/terminal.h"
#include "base/units.h"
#include "bench/observe.h"
#include "bench/safe_text.h"
#include "bench/tables.h"
#include "cli/keep_inputs.h"
#include "cli/page.h"
#include "cli/verbs.h"
#include "config/suggest.h"
#include "plan/exam.h"
#include "plan/fields.h"
#include "plan/forecast.h"
#include "plan/records.h"
#include "plan/stack_reader.h"
#include "reference/source.h"

namespace stretto::cli {
namespace {

constexpr const char* kCalibrateExamples =
    "Fit a cluster's constants from measured runs, and propose the next ones\n\n"
    "Examples:\n"
    "  stretto plan calibrate runs/bench/topologies          records of a sweep or of bench\n"
    "  stretto plan calibrate runs.csv --cluster h100 --propose 8 --write h100.yaml\n";

struct CalibrateOptions {
  std::string records, cluster = "local", software = "stretto", write;
  size_t propose = 6;
  bool json = false;
};

constexpr const char* kExamHelp =
    "Accuracy on the published tables, groups held out\n\n"
    "Examples:\n"
    "  stretto plan exam                         every table, about ten seconds\n"
    "  stretto plan exam --table H100 --rows     one of them, row by row\n";

struct ExamOptions {
  std::string directory;
  std::string table;
  std::string write;
  bool rows = false;
  bool fits = false;
};

void run_exam_verb(const ExamOptions& o) {
  keep_inputs("--write", o.write, {o.write}, {o.directory.empty() ? "reference" : o.directory});
  const ReferenceTables tables =
      find_reference(o.directory.empty() ? std::nullopt : std::optional(o.directory));
  const plan::Exam exam = plan::run_exam(load_reference(tables), o.table);
  write_page(plan::exam_text(exam, o.rows));
  if (o.fits) {
    for (const plan::ExamTable& t : exam.tables) {
      fmt::print("\n# {}\n{}", t.spec.stack,
                 plan::device_entry(t.fitted, t.device,
                                    fmt::format("{} rows of reference/{}.csv ({})", t.rows,
                                                t.spec.file, t.spec.part),
                                    t.fit.spread));
    }
  }
  if (!o.write.empty()) write_text(o.write, plan::exam_markdown(exam));
}

// Adds our own runs on the cluster's kind of device; constants of one kind say nothing about
// another.
void add_own_runs(const std::string& path, const plan::Cluster& cluster,
                  std::vector<plan::Observation>& rows) {
  const std::vector<FoundRecord> found = find_records(posix_fs(), path);
  const auto busy =
      std::ranges::count_if(found, [](const FoundRecord& f) { return f.record.disturbed(); });
  if (busy > 0) {
    spdlog::warn(
        "calibrate: other programs took cores from {}: the fit takes their times as they are; "
        "better measure again when they are done",
        counted(busy, "run"));
  }
  std::set<std::string> elsewhere;
  for (plan::Observation& o : observations_of(found)) {
    if (o.cluster->device == cluster.device) {
      rows.push_back(std::move(o));
    } else {
      elsewhere.insert(o.cluster->name);
    }
  }
  if (elsewhere.empty()) return;
  const std::string where = fmt::format("{}", fmt::join(elsewhere, ", "));
  if (rows.empty()) {
    throw Error(
        ExitCode::bad_data,
        fmt::format("the runs in '{}' were made on {}, not on {}", path, where, cluster.name),
        fmt::format("add --cluster {}", *elsewhere.begin()));
  }
  spdlog::warn("calibrate: runs on {} are left out: they say nothing about {}", where,
               cluster.name);
}

// Runs from CSV tables, which may be of any software, and from records, which are of our own.
std::vector<plan::Observation> all_runs(const std::string& path, const plan::Cluster& cluster,
                                        const plan::Stack& stack) {
  std::vector<plan::Observation> rows;
  const auto info = posix_fs().info(path);
  const bool directory = info && info->kind == FileKind::directory, csv = path.ends_with(".csv");
  if (directory || csv) rows = plan::read_records(path, plan::default_precision(cluster));
  if ((directory || !csv) && stack.own_runtime) add_own_runs(path, cluster, rows);
  if (rows.empty()) {
    throw Error(
        ExitCode::no_input, fmt::format("no timed runs of {} in '{}'", stack.name, path),
        stack.own_runtime
            ? "name a sweep's directory, a record of `stretto bench --out`, or a .csv of runs"
            : "name a .csv of its runs; records are those of stretto");
  }
  return rows;
}

// The path in a form that is not taken for the name of a known cluster or software.
std::string file_word(const std::string& path) {
  return plan::is_file_name(path) ? path : "./" + path;
}

void run_calibrate(const CalibrateOptions& o) {
  keep_inputs("--write", o.write, {o.write}, {o.records, o.cluster, o.software});
  const plan::Cluster cluster = plan::find_cluster(o.cluster);
  plan::Stack stack = plan::find_stack(o.software, cluster);
  const std::vector<plan::Observation> rows = all_runs(o.records, cluster, stack);
  const std::vector<plan::Observation> candidates = plan::candidate_runs(cluster, stack, rows);
  const plan::Calibration result = plan::calibrate(cluster, stack, rows, candidates, o.propose);
  if (o.json) {
    print_json(plan::calibration_json(result));
  } else {
    write_page(plan::calibration_text(result));
  }
  const bool doubtful = !result.doubts.empty();
  for (const std::string& doubt : result.doubts) spdlog::warn("calibrate: {}", doubt);
  if (doubtful) {
    spdlog::warn(
        "calibrate: these constants are not to be trusted{}; check precision, cluster, software "
        "and the units of the runs",
        o.write.empty() ? "" : ", and are written as not fitted");
  }
  if (!o.write.empty()) {
    stack.constants = result.constants;
    // Plans that use this file will show where its constants come from, doubts included.
    std::string source = counted(static_cast<int64_t>(result.rows), "own run");
    if (doubtful) source += fmt::format(", doubtful ({})", fmt::join(result.doubts, "; "));
    if (!result.has_enough_runs()) source += ", too few to tell how far plans are off";
    stack.fitted_devices = result.most_devices;
    const std::string entry = plan::device_entry(stack, cluster.device, source, result.spread,
                                                 !doubtful && result.has_enough_runs());
    write_text(o.write, plan::stack_file(stack, entry));
  }
  if (doubtful) throw Answered{ExitCode::regression};
  if (o.write.empty() || o.json) return;
  write_page(fmt::format("\nuse it: stretto plan MODEL --cluster {} --software {}\n",
                         shell_word(o.cluster), shell_word(file_word(o.write))));
}

void run_compare(const std::string& directory, bool json) {
  std::vector<RunRecord> records = load_records(posix_fs(), directory);
  std::sort(records.begin(), records.end(),
            [](const RunRecord& a, const RunRecord& b) { return a.started < b.started; });
  const ForecastReport c = compare_forecasts(records);
  if (c.rows == 0) {
    throw Error(ExitCode::no_input,
                fmt::format("'{}' holds no two timed runs to compare", directory),
                "run `stretto sweep SPEC --run` first; their machine must be measured");
  }
  const bool memory = c.memory_rows > 0;
  if (json) {
    const nlohmann::json none;
    const nlohmann::json out = {
        {"rows", c.rows},
        {"left_out", c.left_out},
        {"median_error", c.median_error},
        {"worst_error", c.worst_error},
        {"memory_median_error", memory ? nlohmann::json(c.memory_error) : none},
        {"memory_worst_error", memory ? nlohmann::json(c.worst_memory_error) : none},
        {"disturbed_runs", c.disturbed}};
    print_json(out);
    return;
  }
  std::string page = c.table.text(output_width()) + "\n";
  if (c.disturbed > 0) {
    page += fmt::format(
        "This machine was busy: other programs took cores from {} of these runs, and part of the "
        "measured times, and of the errors, is theirs. Measure again when they have ended.\n",
        c.disturbed);
  }
  page += fmt::format(
      "The known run tells how fast this build is on this machine; {} predicted from it "
      "and from what `stretto doctor` measured: median error {:.1f} % (worst {:.1f} %){}.\n",
      c.rows == 1 ? "1 other is" : fmt::format("{} others are", c.rows), 100 * c.median_error,
      100 * c.worst_error,
      memory ? fmt::format(", memory per rank {:.1f} % (worst {:.1f} %)", 100 * c.memory_error,
                           100 * c.worst_memory_error)
             : "");
  if (c.left_out > 0) {
    page += fmt::format("{} left out: not timed, or on a machine that was not measured.\n",
                        c.left_out == 1 ? "1 run is" : fmt::format("{} runs are", c.left_out));
  }
  write_page(page, 0);
}

std::string fields_text(const plan::Cluster& c) {
  std::string text = fmt::format("{}: {}\n", c.name, c.description);
  for (const plan::Field& f : c.fields) {
    text += fmt::format("  {:<30}{:>10g} {:<8}  {}{}{}\n", f.key, f.value, f.unit,
                        name_of(f.source), f.note.empty() ? "" : ": ", f.note);
  }
  return text;
}

void run_clusters(const std::vector<std::string>& wanted) {
  std::string page;
  for (const std::string& name : wanted) page += fields_text(plan::find_cluster(name));
  if (!wanted.empty()) return write_page(page);
  for (const std::string& name : plan::cluster_names()) {
    page += fmt::format("{:<14}  {}\n", name, plan::find_cluster(name).description);
  }
  write_page(page + fmt::format("\nsoftware: {}\n", join_or(plan::stack_names())) +
             "`stretto plan clusters h100` prints every field of one with its unit and source\n");
}

}  // namespace

void write_text(const std::string& path, const std::string& text) {
  write_file_atomic(posix_fs(), path, text);
}

void add_plan_tools(Command& verb, const std::function<void()>& taken) {
  auto exam = std::make_shared<ExamOptions>();
  Command* sub = verb.add_subcommand("exam", kExamHelp);
  sub->add_option("--dir", exam->directory, "read the tables from this directory")->directory();
  sub->add_option("--table", exam->table, "only tables with this in their name");
  sub->add_option("--write", exam->write, "also write the report as Markdown")->file();
  sub->add_flag("--rows", exam->rows, "every row and comparison group");
  sub->add_flag("--fits", exam->fits, "print the constants as entries of configs/software");
  sub->callback([exam, taken] {
    taken();
    run_exam_verb(*exam);
  });
  auto names = std::make_shared<std::vector<std::string>>();
  Command* list =
      verb.add_subcommand("clusters",
                          "Known clusters; of one, every field\n\n"
                          "Examples:\n"
                          "  stretto plan clusters         names, and the software that is known\n"
                          "  stretto plan clusters h100    every number with unit and source\n");
  list->add_option("names", *names, "print every field of these, with unit and source")
      ->offers(plan::cluster_names());
  list->callback([names, taken] {
    taken();
    run_clusters(*names);
  });
  struct CompareOptions {
    std::string directory;
    bool json = false;
  };
  auto compared = std::make_shared<CompareOptions>();
  Command* beside = verb.add_subcommand("compare",
                                        "Predicted beside measured, for a sweep's runs\n\n"
                                        "Examples:\n"
                                        "  stretto plan compare runs/bench/topologies\n");
  beside->add_option("records", compared->directory, "a sweep's directory, or one with records")
      ->required()
      ->file();
  beside->add_flag("--json", compared->json, "the errors only, for machines");
  beside->callback([compared, taken] {
    taken();
    run_compare(compared->directory, compared->json);
  });
  auto calibration = std::make_shared<CalibrateOptions>();
  Command* fit = verb.add_subcommand("calibrate", kCalibrateExamples);
  fit->add_option("records", calibration->records,
                  "a directory of records or .csv files, or one file")
      ->required()
      ->file();
  fit->add_option("--cluster", calibration->cluster, "where they ran (local)")
      ->file()
      ->offers(plan::cluster_names());
  fit->add_option("--software", calibration->software, "what ran (stretto)")
      ->file()
      ->offers(plan::stack_names());
  fit->add_option("--propose", calibration->propose, "how many next runs to propose (6)")
      ->between(0, 1000);
  fit->add_option("--write", calibration->write, "write the constants as a file for --software")
      ->file();
  fit->add_flag("--json", calibration->json, "for machines");
  fit->callback([calibration, taken] {
    taken();
    run_calibrate(*calibration);
  });
}

}  // namespace stretto::cli
