#include "plan/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/units.h"
#include "plan/search.h"
#include "reference/csv.h"

namespace stretto::plan {
namespace {

constexpr int64_t kMaxTableBytes = 64 << 20;

class Cells {
 public:
  Cells(const CsvTable& table, size_t row) : table_(table), row_(row) {}

  std::string text(std::string_view column, const std::string& fallback) const {
    const auto i = table_.column(column);
    if (!i || table_.rows[row_][*i].empty()) return fallback;
    return table_.rows[row_][*i];
  }
  double number(std::string_view column) const {
    const auto i = table_.column(column);
    if (!i) {
      throw Error(ExitCode::bad_data, fmt::format("{}: no column '{}'", table_.name, column),
                  "see `stretto plan calibrate --help` and docs/planner.md for the columns");
    }
    const std::string& cell = table_.rows[row_][*i];
    double value = 0;
    const auto result = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (result.ec != std::errc() || result.ptr != cell.data() + cell.size() || !(value >= 0) ||
        value > 1e18) {
      refuse(column, "write a number that is not negative");
    }
    return value;
  }
  int64_t whole(std::string_view column, int64_t most = int64_t{1} << 53) const {
    const double value = number(column);
    if (value != std::floor(value) || value > static_cast<double>(most)) {
      refuse(column, fmt::format("write a whole number from 0 to {}", most));
    }
    return static_cast<int64_t>(value);
  }
  bool has(std::string_view column) const { return !text(column, "").empty(); }

 private:
  [[noreturn]] void refuse(std::string_view column, const std::string& fix) const {
    throw Error(ExitCode::bad_data,
                fmt::format("{}:{}: {} is '{}'", table_.name, table_.lines[row_], column,
                            printable(text(column, ""))),
                fix);
  }

  const CsvTable& table_;
  size_t row_;
};

const char* name_of(DType type) { return dtype_name(type); }

template <typename Enum>
Enum enum_of(const std::string& word, std::initializer_list<Enum> values, const CsvTable& table,
             size_t row, const char* column) {
  for (Enum value : values) {
    if (word == name_of(value)) return value;
  }
  throw Error(
      ExitCode::bad_data,
      fmt::format("{}:{}: {} is '{}'", table.name, table.lines[row], column, printable(word)),
      "use a word that the configuration knows");
}

Observation observation_of(const CsvTable& table, size_t row, Precision unsaid) {
  const Cells c(table, row);
  Observation o;
  o.id = c.text("id", fmt::format("{}:{}", table.name, table.lines[row]));
  o.same_as = o.id;
  ModelShape& m = o.work.model;
  m.layers = c.whole("layers");
  m.hidden = c.whole("hidden");
  m.heads = c.whole("heads");
  m.name = c.text("model", fmt::format("{}x{}h{}", m.layers, m.hidden, m.heads));
  m.vocab = c.whole("vocab");
  m.ffn = c.has("ffn") ? c.whole("ffn") : 4 * m.hidden;
  o.work.seq_len = c.whole("seq_len");
  m.positions = o.work.seq_len;
  o.work.global_batch = c.whole("global_batch");
  o.work.precision = enum_of<Precision>(c.text("precision", name_of(unsaid)),
                                        {Precision::fp32, Precision::amp_bf16, Precision::bf16,
                                         Precision::amp_fp16, Precision::amp_fp8},
                                        table, row, "precision");
  o.work.gradient_type = enum_of<DType>(c.text("gradient_dtype", "f32"), {DType::f32, DType::bf16},
                                        table, row, "gradient_dtype");
  o.layout.dp = c.whole("dp");
  o.layout.tp = c.whole("tp");
  o.layout.pp = c.whole("pp");
  o.layout.micro_batch = c.whole("micro_batch");
  o.layout.zero = c.has("zero") ? static_cast<int>(c.whole("zero", 3)) : 0;
  o.layout.recompute = enum_of<Checkpointing>(
      c.text("recompute", "none"),
      {Checkpointing::none, Checkpointing::gelu, Checkpointing::selective, Checkpointing::full},
      table, row, "recompute");
  o.seconds = c.number("seconds");
  if (c.has("memory_bytes")) o.memory = c.number("memory_bytes");
  try {
    check_workload(o.work);
  } catch (const Error& error) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}:{}: {}", table.name, table.lines[row], error.what()),
                "check the row");
  }
  const Layout& l = o.layout;
  const auto refuse = [&](const std::string& why, const char* fix) {
    throw Error(ExitCode::bad_data,
                fmt::format("{}:{}: the layout {} cannot run{}", table.name, table.lines[row],
                            describe(l), why),
                fix);
  };
  if (l.dp < 1 || l.tp < 1 || l.pp < 1 || l.micro_batch < 1 || l.pp > m.layers) {
    refuse("", "dp, tp, pp and micro_batch are at least 1, pp at most the layers");
  }
  if (m.heads % l.tp != 0 || m.hidden % l.tp != 0 || m.ffn % l.tp != 0) {
    refuse(fmt::format(": {} heads, {} hidden, {} ffn", m.heads, m.hidden, m.ffn),
           "tp divides heads, hidden and ffn: check the row");
  }
  if (o.work.global_batch % l.dp != 0) {
    refuse(fmt::format(": {} sequences for dp {}", o.work.global_batch, l.dp),
           "dp divides global_batch, which counts sequences: check the row");
  }
  return o;
}

bool is_run_table(const std::string& text) {
  const std::string header = text.substr(0, text.find('\n'));
  return header.find("micro_batch") != std::string::npos &&
         header.find("layers") != std::string::npos && header.find("seconds") != std::string::npos;
}

}  // namespace

std::vector<Observation> read_record_table(std::string_view csv, const std::string& name,
                                           Precision unsaid) {
  const CsvTable table = parse_csv(csv, name);
  std::vector<Observation> out;
  for (size_t i = 0; i < table.rows.size(); ++i) out.push_back(observation_of(table, i, unsaid));
  return out;
}

std::vector<Observation> read_records(const std::string& path, Precision unsaid) {
  Fs& fs = posix_fs();
  const auto info = fs.info(path);
  if (!info) {
    throw Error(ExitCode::no_input, fmt::format("no run records: '{}' does not exist", path),
                "name a sweep's directory, a record, or a .csv file of runs");
  }
  const bool directory = info->kind == FileKind::directory;
  std::vector<std::string> files = {path};
  if (directory) {
    files.clear();
    for (const std::string& name : fs.list(path)) {
      const std::string file = join_path(path, name);
      const auto about = fs.info(file);
      const bool regular = about && about->kind == FileKind::regular;
      if (!regular || !name.ends_with(".csv")) continue;
      if (about->bytes <= kMaxTableBytes) {
        files.push_back(file);
      } else {
        spdlog::warn("{} is left out: {}, more than a table of runs has", file,
                     format_bytes(static_cast<double>(about->bytes)));
      }
    }
  }
  std::vector<Observation> out;
  for (const std::string& file : files) {
    const std::string text = read_file(fs, file, kMaxTableBytes);
    // `stretto collect` puts tables for people beside the records: not runs.
    if (directory && !is_run_table(text)) continue;
    const auto rows = read_record_table(text, file.substr(file.find_last_of('/') + 1), unsaid);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

std::vector<Observation> candidate_runs(const Cluster& cluster, const Stack& stack,
                                        const std::vector<Observation>& rows) {
  std::vector<Observation> out;
  std::vector<Workload> seen;
  for (const Observation& o : rows) {
    const auto as_here = [&](const Workload& w) {
      return w.model == o.work.model && w.seq_len == o.work.seq_len &&
             w.global_batch == o.work.global_batch;
    };
    if (std::any_of(seen.begin(), seen.end(), as_here) || seen.size() >= 8) continue;
    seen.push_back(o.work);
    Constraints limits;
    limits.devices = o.layout.devices();
    const Cluster& where = o.cluster ? *o.cluster : cluster;
    const std::vector<Layout> layouts = enumerate_layouts(where, stack, o.work, limits, nullptr);
    // Layouts of a small space are all candidates; from a large one an even sample keeps this fast.
    const size_t step = std::max<size_t>(1, layouts.size() / 64);
    for (size_t i = 0; i < layouts.size(); i += step) {
      if (estimate_memory(where, stack, o.work, layouts[i]).fit != plan::Fit::fits) continue;
      const bool ran = std::any_of(rows.begin(), rows.end(), [&](const Observation& row) {
        return row.layout == layouts[i] && as_here(row.work);
      });
      if (ran) continue;
      Observation c = o;
      c.id = describe(layouts[i]);
      c.layout = layouts[i];
      c.seconds = 0;
      c.memory = 0;
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace stretto::plan
