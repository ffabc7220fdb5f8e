// stretto reference: the published tables, shown and recomputed.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text_table.h"
#include "cli/page.h"
#include "cli/verbs.h"
#include "reference/check.h"
#include "reference/source.h"

namespace stretto::cli {
namespace {

constexpr const char* kHelp =
    "The published result tables: shown, and recomputed from their own columns\n\n"
    "Examples:\n"
    "  stretto reference check                   every derived figure, strictly\n"
    "  stretto reference check --dir my_tables   the same over another copy\n"
    "  stretto reference show mpt                a table: mpt, mosaicgpt, bloom, fugaku\n"
    "  stretto reference show bloom/T21 --json   a part of one, for machines\n\n"
    "Tables come from reference/ in the current directory when it holds them, else from the copy "
    "inside the program. Exit code 1: a figure does not reproduce and is no known anomaly.";

struct Options {
  std::string directory;
  std::string table;
  bool json = false;

  ReferenceTables tables() const {
    return find_reference(directory.empty() ? std::nullopt : std::optional(directory));
  }
};

std::string error_text(double error) {
  return error < 1e-14 ? "exact" : fmt::format("{:.1e}", error);
}

nlohmann::json check_json(const ReferenceCheck& check, const std::string& origin) {
  nlohmann::json out = {{"tables", origin}, {"checks", check.checks}, {"passed", check.passed()}};
  for (const FigureSummary& f : check.figures) {
    out["figures"].push_back({{"table", f.file},
                              {"group", f.group},
                              {"figure", f.figure},
                              {"rows", f.rows},
                              {"reproduced", f.reproduced},
                              {"known_anomalies", f.known},
                              {"max_relative_error", f.max_error},
                              {"median_relative_error", f.median_error}});
  }
  out["not_reproduced"] = nlohmann::json::array();
  for (const FigureFailure& f : check.failures) {
    out["not_reproduced"].push_back({{"table", f.file},
                                     {"line", f.line},
                                     {"id", f.id},
                                     {"figure", f.figure},
                                     {"published", f.published},
                                     {"recomputed", f.recomputed},
                                     {"known", f.known},
                                     {"reason", f.reason}});
  }
  return out;
}

std::string failures_text(const ReferenceCheck& check, bool known) {
  std::string text;
  for (const FigureFailure& f : check.failures) {
    if (f.known != known) continue;
    text += fmt::format("  {} {}: {} published, {:.5g} recomputed ({}.csv line {})\n    {}\n",
                        printable(f.id), f.figure, printable(f.published), f.recomputed, f.file,
                        f.line, printable(f.reason));
  }
  return text;
}

// Rows whose figures can be recomputed, but about which the table itself has a warning.
std::string notes_text(const std::vector<ReferenceRow>& rows, const ReferenceCheck& check) {
  std::string text;
  for (const ReferenceRow& row : rows) {
    const bool listed = std::any_of(check.failures.begin(), check.failures.end(),
                                    [&](const FigureFailure& f) { return f.id == row.id; });
    if (!row.anomaly.empty() && !listed) {
      text += fmt::format("  {}  {}\n", printable(row.id), printable(row.anomaly));
    }
  }
  return text.empty() ? "" : "\nReproduce, but contradict other rows:\n" + text;
}

void print_check(const ReferenceCheck& check, const std::vector<ReferenceRow>& rows,
                 const std::string& origin) {
  std::string page =
      fmt::format("{} figures recomputed from the columns of {} published rows ({})\n\n",
                  check.checks, rows.size(), printable(origin));
  TextTable table({"table", "rows of", "figure", ">rows", ">reproduced", ">known anomalies",
                   ">largest error", ">median"});
  for (const FigureSummary& f : check.figures) {
    table.add({f.file, printable(f.group), f.figure, fmt::to_string(f.rows),
               fmt::to_string(f.reproduced), f.known == 0 ? "" : fmt::to_string(f.known),
               error_text(f.max_error), error_text(f.median_error)});
  }
  page += table.text(output_width());
  const auto known = std::count_if(check.failures.begin(), check.failures.end(),
                                   [](const FigureFailure& f) { return f.known; });
  if (known > 0) page += "\nDo not reproduce, known:\n" + failures_text(check, true);
  page += notes_text(rows, check);
  page +=
      check.passed()
          ? fmt::format("\nAll figures reproduce within the published rounding, except {} known.\n",
                        known)
          : "\nDO NOT REPRODUCE:\n" + failures_text(check, false);
  write_page(page);
}

void run_check(const Options& options) {
  const ReferenceTables tables = options.tables();
  const auto rows = load_reference(tables);
  ReferenceCheck check = check_reference(rows);
  require_as_many_rows(check, check_reference(load_reference()));
  if (options.json) {
    print_json(check_json(check, tables.origin));
  } else {
    print_check(check, rows, tables.origin);
  }
  if (check.passed()) return;
  const auto bad = std::find_if(check.failures.begin(), check.failures.end(),
                                [](const FigureFailure& f) { return !f.known; });
  throw Error(ExitCode::regression,
              fmt::format("published figures do not follow from their rows, first {} of {}",
                          bad->figure, printable(bad->id)),
              "compare the rows named above with the built-in tables");
}

// "mpt", "mpt/T01", or the name of a sub-table if only one table has it ("003-T02").
std::vector<std::pair<const CsvTable*, size_t>> select_rows(const ReferenceTables& all,
                                                            const std::string& wanted) {
  const size_t slash = wanted.find('/');
  const std::string file = wanted.substr(0, slash);
  const std::string part = slash == std::string::npos ? "" : wanted.substr(slash + 1);
  std::vector<std::pair<const CsvTable*, size_t>> rows;
  std::string names;
  for (const CsvTable& table : all.tables) {
    const std::string name = table.name.substr(0, table.name.rfind('.'));
    names += (names.empty() ? "" : ", ") + name;
    const size_t column = *table.column("table");
    for (size_t i = 0; i < table.rows.size(); ++i) {
      const std::string& id = table.rows[i][column];
      if ((name == file && (part.empty() || id == part)) || id == wanted)
        rows.emplace_back(&table, i);
    }
  }
  const bool several = std::any_of(rows.begin(), rows.end(),
                                   [&](const auto& row) { return row.first != rows[0].first; });
  if (rows.empty() || several) {
    throw Error(
        ExitCode::usage,
        fmt::format("{} is called '{}'", several ? "more than one table" : "no table", wanted),
        "use one of " + names + ", or a part of one such as bloom/T21 or 003-T02");
  }
  return rows;
}

// A cell as a JSON number if it is one, else exactly as printed. Blank cells are left out.
nlohmann::json cell_json(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = error == std::errc() && end == text.data() + text.size();
  return number ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json(text);
}

void show_json(const std::vector<std::pair<const CsvTable*, size_t>>& rows) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto& [table, i] : rows) {
    nlohmann::ordered_json row;
    for (size_t c = 0; c < table->header.size(); ++c) {
      const std::string& text = table->rows[i][c];
      if (text.empty()) continue;
      const auto value = cell_json(text);
      row[table->header[c]] = value.is_discarded() ? nlohmann::json(text) : value;
    }
    out.push_back(std::move(row));
  }
  fmt::print("{}\n", for_stdout(out.dump(2)));
}

void show_table(const std::vector<std::pair<const CsvTable*, size_t>>& rows) {
  // The columns that people compare, in reading order. Those that a table does not have, or leaves
  // blank, are skipped.
  constexpr std::pair<const char*, const char*> kShown[] = {
      {"id", "id"},
      {"table", "table"},
      {"model", "model"},
      {"layers", ">layers"},
      {"hidden", ">hidden"},
      {"heads", ">heads"},
      {"seq_len", ">seq"},
      {"hardware", "hardware"},
      {"gpus", ">gpus"},
      {"nodes", ">nodes"},
      {"freq_ghz", ">GHz"},
      {"dp", ">dp"},
      {"tp", ">tp"},
      {"pp", ">pp"},
      {"micro_batch", ">mbs"},
      {"grad_accum", ">accum"},
      {"global_batch", ">gbs"},
      {"precision", "precision"},
      {"activation_checkpointing", "ckpt"},
      {"memory", ">memory"},
      {"sec_per_iter", ">s/it"},
      {"tokens_per_sec_per_gpu", ">tok/s/gpu"},
      {"tflops_per_gpu", ">TFLOPs"},
      {"mfu_star", ">MFU*"},
      {"mfu", ">MFU"},
      {"hfu_star", ">HFU*"},
      {"hfu", ">HFU"},
      {"status", "status"},
      {"anomaly", "note"}};
  const CsvTable& table = *rows.front().first;
  std::vector<size_t> columns;
  std::vector<std::string> headings;
  for (const auto& [name, heading] : kShown) {
    const auto column = table.column(name);
    const bool filled = column && std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
                          return !table.rows[row.second][*column].empty();
                        });
    if (!filled) continue;
    columns.push_back(*column);
    headings.push_back(heading);
  }
  TextTable out(headings);
  for (const auto& [_, i] : rows) {
    std::vector<std::string> cells;
    for (size_t column : columns) cells.push_back(printable(table.rows[i][column]));
    out.add(std::move(cells));
  }
  write_page(out.text(output_width()));
}

void run_show(const Options& options) {
  const ReferenceTables tables = options.tables();
  // Throws for a malformed table.
  for (const CsvTable& table : tables.tables) reference_rows(table);
  const auto rows = select_rows(tables, options.table);
  options.json ? show_json(rows) : show_table(rows);
}

}  // namespace

void add_reference(Command& app) {
  Command* verb = app.add_subcommand("reference", kHelp);
  verb->require_subcommand(1);
  auto options = std::make_shared<Options>();
  const auto add_common = [&](Command* sub) {
    sub->add_option("--dir", options->directory, "Directory with the four CSV files")->directory();
    sub->add_flag("--json", options->json, "For machines");
  };
  Command* check = verb->add_subcommand(
      "check",
      "Recompute every derived figure\n\n"
      "Examples:\n"
      "  stretto reference check                   exit code 1: a figure does not reproduce\n"
      "  stretto reference check --dir my_tables   the same over another copy\n");
  add_common(check);
  check->callback([options] { run_check(*options); });
  Command* show = verb->add_subcommand(
      "show",
      "Print a table\n\n"
      "Examples:\n"
      "  stretto reference show mpt                a table: mpt, mosaicgpt, bloom, fugaku\n"
      "  stretto reference show bloom/T21 --json   a part of one, for machines\n");
  show->add_option("table", options->table, "mpt, mosaicgpt, bloom, fugaku or a part: bloom/T21")
      ->required()
      ->offers({"mpt", "mosaicgpt", "bloom", "fugaku"});
  add_common(show);
  show->callback([options] { run_show(*options); });
}

}  // namespace stretto::cli
