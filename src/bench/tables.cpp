#include "bench/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "bench/run_names.h"
#include "bench/safe_text.h"
#include "bench/statistics.h"
#include "bench/styles.h"

namespace stretto {
namespace {

constexpr std::pair<const char*, TableStyle> kStyles[] = {{"mpt", TableStyle::mpt},
                                                          {"mosaicgpt", TableStyle::mosaicgpt},
                                                          {"bloom", TableStyle::bloom},
                                                          {"fugaku", TableStyle::fugaku},
                                                          {"predicted", TableStyle::predicted},
                                                          {"full", TableStyle::full}};

// A double, because rejected runs may have numbers of any size and sign.
double number(int64_t value) { return static_cast<double>(value); }

// By the model's parameters alone: the position table, which grows with the sequence length, is
// left out.
double size_of(const Config& config) {
  return number(config.model.layers) * number(config.model.hidden) * number(config.model.hidden);
}

bool published_before(const RunRecord& a, const RunRecord& b) {
  const auto key = [](const RunRecord& r) {
    const Config& c = r.config;
    return std::make_tuple(c.precision == Precision::amp_fp8, -size_of(c), -number(c.seq_len),
                           -number(r.devices()), -number(c.global_batch));
  };
  if (a.device != b.device) return a.device > b.device;
  return key(a) < key(b);
}

std::string host_of(const RunRecord& r) { return r.device + "\n" + r.peak_source; }

std::string build_of(const RunRecord& r) { return r.build.program(); }

template <typename Name>
std::string most_common(const std::vector<RunRecord>& records, Name name) {
  std::map<std::string, int> counts;
  for (const RunRecord& r : records) ++counts[name(r)];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? "" : most->first;
}

// Measured FLOP/s of one core of the record's machine, which depends on its clock. 0: not measured.
double core_rate(const RunRecord& r) {
  const nlohmann::json machine = nlohmann::json::parse(r.machine, nullptr, false);
  const auto at = nlohmann::json::json_pointer("/measured/fma_flops_one_core");
  if (!machine.is_object() || !machine.contains(at) || !machine[at].is_number()) return 0;
  return machine[at].get<double>();
}

// A run that ended well without a timed step has no failure to show.
std::string in_place_of_figures(const RunRecord& r) {
  return r.status == RunStatus::ok ? "not timed" : name_of(r.status);
}

std::string join(const std::vector<std::string>& cells, const char* between) {
  return fmt::format("{}", fmt::join(cells, between));
}

}  // namespace

TableStyle style_from_name(std::string_view name) {
  for (const auto& [word, style] : kStyles) {
    if (name == word) return style;
  }
  throw Error(ExitCode::usage, fmt::format("--style {}", name),
              "use mpt, mosaicgpt, bloom, fugaku, predicted or full");
}

std::string ResultTable::csv() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> fields;
    for (const std::string& cell : cells) fields.push_back(csv_field(cell));
    out += join(fields, ",") + "\n";
  };
  line(header);
  for (const auto& row : rows) line(row);
  return out;
}

std::string ResultTable::markdown() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> safe;
    for (const std::string& cell : cells) safe.push_back(markdown_cell(cell));
    out += "| " + join(safe, " | ") + " |\n";
  };
  line(header);
  out += "| " + join(std::vector<std::string>(header.size(), "---"), " | ") + " |\n";
  for (const auto& row : rows) line(row);
  return out;
}

namespace {

// Whether two rows differ only in what was measured.
bool has_twins(const std::vector<TableColumn>& columns,
               const std::vector<std::vector<std::string>>& rows) {
  std::set<std::string> seen;
  for (const auto& row : rows) {
    std::string key;
    for (size_t c = 0; c < columns.size(); ++c) {
      const bool told = !columns[c].needs_time && columns[c].name != "Mem";
      if (told) key += row[c] + "\n";
    }
    if (!seen.insert(key).second) return true;
  }
  return false;
}

// Whether rows differ in their layout over ranks and no column shows it.
bool hides_layout(const std::vector<TableColumn>& columns, const std::vector<RunRecord>& records) {
  const auto shows = [](const TableColumn& column) { return column.name == "TP"; };
  if (std::any_of(columns.begin(), columns.end(), shows)) return false;
  return std::any_of(records.begin(), records.end(), [&](const RunRecord& r) {
    const ParallelConfig &first = records.front().config.parallel, &p = r.config.parallel;
    return p.tp != first.tp || p.pp != first.pp;
  });
}

void add_names(ResultTable& table, const std::vector<RunRecord>& records) {
  std::vector<const RunRecord*> all;
  for (const RunRecord& r : records) all.push_back(&r);
  const std::vector<std::string> names = run_names(all);
  table.header.push_back("Label");  // last, so that the published columns keep their places
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string& by = records[i].launcher;
    const bool usual = by.empty() || by == "threads";
    table.rows[i].push_back(usual ? names[i] : fmt::format("{} ({})", names[i], by));
  }
}

}  // namespace

ResultTable make_table(TableStyle style, std::vector<RunRecord> records,
                       const std::vector<ReferenceRow>* published) {
  std::stable_sort(records.begin(), records.end(), published_before);
  const std::vector<std::string> apart = incomparable(records);
  const std::vector<TableColumn> columns = style_columns(style, published);
  const std::vector<RecordForecast> forecasts = forecasts_of(records);
  ResultTable table;
  for (const TableColumn& column : columns) table.header.push_back(column.name);
  for (size_t i = 0; i < records.size(); ++i) {
    const RowFacts facts{records[i], derive(records[i]), apart[i], forecasts[i]};
    std::vector<std::string> cells;
    for (const TableColumn& column : columns) {
      const bool counts = records[i].counts() && facts.figures.step.median > 0;
      const bool missing = column.needs_time && !counts;
      cells.push_back(missing ? in_place_of_figures(records[i]) : column.cell(facts));
    }
    table.rows.push_back(std::move(cells));
  }
  const bool named = table.header.front() == "Label";
  const bool hidden = has_twins(columns, table.rows) || hides_layout(columns, records);
  if (!named && hidden) add_names(table, records);
  return table;
}

std::vector<RunRecord> load_records(Fs& fs, const std::string& path) {
  std::vector<RunRecord> records;
  for (FoundRecord& found : find_records(fs, path)) records.push_back(std::move(found.record));
  if (records.empty()) {
    throw Error(ExitCode::no_input, fmt::format("{} holds no records", printable(path)),
                "run `stretto sweep SPEC --run`, `stretto bench CONFIG --out FILE` or "
                "`stretto train CONFIG output=DIR` first");
  }
  const size_t found = records.size();
  records = without_repeats(std::move(records));
  if (found > records.size()) {
    const size_t left_out = found - records.size();
    spdlog::info("{} left out: of each configuration, build, machine and first step one is kept",
                 left_out == 1 ? "1 record is" : fmt::format("{} records are", left_out));
  }
  return records;
}

std::vector<RunRecord> without_repeats(std::vector<RunRecord> records) {
  std::map<std::string, size_t> seen;
  std::vector<RunRecord> kept;
  for (RunRecord& r : records) {
    const std::string key = config_hash(r.config) + "\n" + r.source + "\n" + r.launcher + "\n" +
                            build_of(r) + "\n" + host_of(r) + "\n" + fmt::to_string(r.first_step) +
                            "\n" + (r.status == RunStatus::rejected ? r.reason : "");
    const auto [it, is_new] = seen.emplace(key, kept.size());
    if (is_new) {
      kept.push_back(std::move(r));
      continue;
    }
    RunRecord& old = kept[it->second];
    const auto rank = [](const RunRecord& x) {
      return std::make_tuple(x.status == RunStatus::ok, x.counts(), x.started);
    };
    if (rank(r) > rank(old)) old = std::move(r);
  }
  return kept;
}

std::vector<std::string> incomparable(const std::vector<RunRecord>& records) {
  constexpr double kOtherClock = 0.05;  // relative difference in the measured rate of one core
  const std::string build = most_common(records, build_of);
  const std::string host = most_common(records, [](const RunRecord& r) { return r.device; });
  std::vector<double> rates;
  for (const RunRecord& r : records) {
    if (r.device == host && core_rate(r) > 0) rates.push_back(core_rate(r));
  }
  const double usual = rates.empty() ? 0 : quantile(rates, 0.5);
  std::vector<std::string> out;
  for (const RunRecord& r : records) {
    std::string why;
    if (r.device != host) why = "other machine";
    if (build_of(r) != build) why += why.empty() ? "other build" : ", other build";
    const double rate = core_rate(r);
    if (r.device == host && usual > 0 && rate > 0 && std::abs(rate / usual - 1) > kOtherClock) {
      why += why.empty() ? "other clock state" : ", other clock state";
    }
    out.push_back(why);
  }
  return out;
}

}  // namespace stretto
