// stretto collect: records become results.csv and results.md.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/terminal.h"
#include "base/units.h"
#include "bench/tables.h"
#include "cli/verbs.h"
#include "reference/source.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "Gathers records into results.csv and results.md\n\n"
    "Examples:\n"
    "  stretto collect runs/sweep                       the 20 columns of the published MPT "
    "tables\n"
    "  stretto collect runs/sweep --style full          everything, predicted beside measured\n"
    "  stretto collect runs/sweep --against reference   with the nearest published row\n"
    "  stretto collect run.json --save-path results     one record, written to results/\n";

struct Options {
  std::string directory, style = "mpt", against, save_path;
};

// Explains a published column whose name is misleading.
std::string units_below(const ResultTable& table) {
  const auto& names = table.header;
  if (std::find(names.begin(), names.end(), "Model TFLOP") == names.end()) return "";
  return "\nModel TFLOP is in hundreds of TFLOP/s per device, as published: 1.5 is 150 TFLOP/s.\n";
}

// A separate table for predictions, for which published tables have no column.
std::string predictions_below(TableStyle style, const std::vector<RunRecord>& records) {
  if (style == TableStyle::full || style == TableStyle::predicted) return "";
  std::vector<RunRecord> foreseen;
  for (const RunRecord& r : records) {
    if (r.predicted.seconds > 0) foreseen.push_back(r);
  }
  if (foreseen.empty()) return "";
  return "\nPredicted beside measured (seconds; bytes per rank):\n\n" +
         make_table(TableStyle::predicted, foreseen, nullptr).markdown();
}

void collect(const Options& options) {
  const TableStyle style = style_from_name(options.style);
  const std::vector<RunRecord> records = load_records(posix_fs(), options.directory);
  std::vector<ReferenceRow> rows;
  if (!options.against.empty()) {
    if (options.against != "reference") {
      throw Error(ExitCode::usage, fmt::format("--against {}", options.against),
                  "use --against reference; `stretto compare A B` compares records");
    }
    rows = load_reference(find_reference(std::nullopt));
  }
  const ResultTable table = make_table(style, records, rows.empty() ? nullptr : &rows);
  const std::string base = options.save_path.empty()
                               ? results_directory(posix_fs(), options.directory)
                               : options.save_path;
  make_dirs(posix_fs(), base);
  write_file_atomic(posix_fs(), join_path(base, "results.csv"), table.csv());
  const std::string page =
      table.markdown() + units_below(table) + predictions_below(style, records);
  write_file_atomic(posix_fs(), join_path(base, "results.md"), page);
  fmt::print("{}", for_stdout(page));
  size_t apart = 0;
  for (const std::string& why : incomparable(records)) apart += why.empty() ? 0 : 1;
  if (apart > 0) {
    spdlog::warn(
        "{} of {} rows come from another build or machine than the rest: see "
        "--style full, column Notes",
        apart, records.size());
  }
  spdlog::info("{} in {}/results.csv and results.md", counted(std::ssize(table.rows), "row"), base);
}

}  // namespace

void add_collect(Command& app) {
  Command* verb = app.add_subcommand("collect", kHelp);
  auto options = std::make_shared<Options>();
  verb->add_option("directory", options->directory, "Where the records are, or one of them")
      ->required()
      ->file();
  verb->add_option("--style", options->style, "mpt, mosaicgpt, bloom, fugaku, predicted or full")
      ->offers({"mpt", "mosaicgpt", "bloom", "fugaku", "predicted", "full"})
      ->capture_default_str();
  verb->add_option("--against", options->against, "`reference`: add the nearest published row")
      ->offers({"reference"});
  verb->add_option("--save-path", options->save_path, "Directory of the results (default: DIR)")
      ->directory();
  verb->callback([options] { collect(*options); });
}

}  // namespace stretto::cli
