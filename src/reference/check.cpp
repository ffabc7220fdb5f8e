#include "reference/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/numbers.h"
#include "reference/figures.h"
#include "reference/source.h"

namespace stretto {
namespace {

// Rows of one table that share hardware, or a formula of the same time.
std::string group_of(const ReferenceRow& r) {
  if (r.file == "mpt") return r.section.substr(0, r.section.find(" with "));
  if (r.file == "mosaicgpt") return r.hardware == "a100_40gb" ? "A100 40GB" : "A100 80GB";
  if (r.file != "bloom") return r.table + " " + r.size_label;
  if (r.date.empty()) return "hang table";
  return r.date < "02-21" ? r.date : "from 02-21";
}

bool same_figures(const FigureTest& a, const FigureTest& b) {
  return a.name == b.name && a.published == b.published && a.recomputed == b.recomputed;
}

bool is_built_in(const ReferenceRow& row, const FigureTest& failed) {
  static const std::vector<ReferenceRow> kRows = load_reference();
  for (const ReferenceRow& known : kRows) {
    if (known.file != row.file || known.id != row.id) continue;
    for (const FigureTest& test : figure_tests(known)) {
      if (same_figures(test, failed)) return true;
    }
  }
  return false;
}

// Whether a failure is a known anomaly, which the table marks. If the mark has a fix, the figure
// must fit with the fix; if not, the figure must be exactly that of the built-in table.
bool is_known(const ReferenceRow& row, const FigureTest& failed) {
  const char* prefix = failed.kind == FigureKind::formula ? "formula:" : "structure:";
  if (failed.kind == FigureKind::strict || !row.anomaly.starts_with(prefix)) return false;
  if (row.suggested_fix.empty()) return is_built_in(row, failed);
  for (const FigureTest& test : figure_tests(with_suggested_fix(row))) {
    if (test.name == failed.name) return test.reproduces();
  }
  return false;
}

FigureFailure failure_of(const ReferenceRow& row, const FigureTest& test) {
  FigureFailure failure{row.file,       row.id,          test.name,           row.line,
                        test.published, test.recomputed, is_known(row, test), row.anomaly};
  if (failure.known) return failure;
  failure.reason = "the row's own columns give another figure";
  if (!row.anomaly.empty()) failure.reason += "; the table notes: " + row.anomaly;
  return failure;
}

}  // namespace

bool ReferenceCheck::passed() const {
  return std::all_of(failures.begin(), failures.end(), [](const auto& f) { return f.known; });
}

ReferenceCheck check_reference(const std::vector<ReferenceRow>& rows) {
  using Key = std::tuple<std::string, std::string, std::string>;
  ReferenceCheck check;
  std::map<Key, size_t> index;
  std::vector<std::vector<double>> errors;
  for (const ReferenceRow& row : rows) {
    for (const FigureTest& test : figure_tests(row)) {
      const Key key{row.file, group_of(row), test.name};
      const auto [it, fresh] = index.try_emplace(key, check.figures.size());
      if (fresh) {
        check.figures.push_back({row.file, std::get<1>(key), test.name});
        errors.emplace_back();
      }
      FigureSummary& summary = check.figures[it->second];
      ++summary.rows;
      ++check.checks;
      if (test.reproduces()) {
        ++summary.reproduced;
        errors[it->second].push_back(test.relative_error());
        continue;
      }
      check.failures.push_back(failure_of(row, test));
      if (check.failures.back().known) ++summary.known;
    }
  }
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i].empty()) continue;
    check.figures[i].median_error = median(errors[i]);
    check.figures[i].max_error = *std::max_element(errors[i].begin(), errors[i].end());
  }
  return check;
}

void require_as_many_rows(ReferenceCheck& check, const ReferenceCheck& expected) {
  for (const FigureSummary& want : expected.figures) {
    int64_t have = 0;
    for (const FigureSummary& summary : check.figures) {
      if (std::tie(summary.file, summary.group, summary.figure) ==
          std::tie(want.file, want.group, want.figure)) {
        have = summary.rows;
      }
    }
    if (have >= want.rows) continue;
    check.failures.push_back({want.file, want.group, want.figure, 0, fmt::format("{} rows", have),
                              static_cast<double>(want.rows), false,
                              "rows or cells are missing that the built-in table has"});
  }
}

}  // namespace stretto
