#include "reference/rows.h"

#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"

namespace stretto {
namespace {

constexpr const char* kHint = "restore the file, or leave --dir out to use the built-in tables";

[[noreturn]] void bad_cell(std::string_view place, std::string_view text,
                           const std::string& wanted) {
  const std::string shown = printable(text.substr(0, 60));
  throw Error(ExitCode::bad_data, fmt::format("{}: '{}' is not {}", place, shown, wanted), kHint);
}

int64_t parse_integer(std::string_view text, int64_t most, std::string_view place) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || value < 0) bad_cell(place, text, "a whole number");
  if (value > most) bad_cell(place, text, fmt::format("a number up to {}", with_commas(most)));
  return value;
}

bool parse_truth(std::string_view text, std::string_view place) {
  if (text == "True") return true;
  if (text != "False") bad_cell(place, text, "True or False");
  return false;
}

using Text = std::string ReferenceRow::*;
using Integer = std::optional<int64_t> ReferenceRow::*;
using Number = std::optional<Published> ReferenceRow::*;

// Within these limits all products in the formulas (12 L C^2, V C, batch x sequence) fit into 63
// bits.
constexpr int64_t kLayers = 100'000, kHidden = 1'000'000, kCount = 1'000'000'000;
constexpr int64_t kTotal = 1'000'000'000'000'000;

struct IntegerColumn {
  const char* name;
  Integer member;
  int64_t most;
};

struct Columns {
  std::vector<std::pair<const char*, Text>> texts;
  std::vector<IntegerColumn> integers;
  std::vector<std::pair<const char*, Number>> numbers;
};

const Columns& columns() {
  using R = ReferenceRow;
  static const Columns kColumns = {{{"id", &R::id},
                                    {"section", &R::section},
                                    {"table", &R::table},
                                    {"model", &R::model},
                                    {"size_label", &R::size_label},
                                    {"hardware", &R::hardware},
                                    {"unit", &R::unit},
                                    {"precision", &R::precision},
                                    {"mp_mode", &R::mp_mode},
                                    {"sharding", &R::sharding},
                                    {"flops_basis", &R::flops_basis},
                                    {"date", &R::date},
                                    {"status", &R::status},
                                    {"repeat_of", &R::repeat_of},
                                    {"anomaly", &R::anomaly},
                                    {"suggested_fix", &R::suggested_fix},
                                    {"tflops_raw", &R::tflops_raw}},
                                   {{"params", &R::params, kTotal},
                                    {"layers", &R::layers, kLayers},
                                    {"hidden", &R::hidden, kHidden},
                                    {"heads", &R::heads, kCount},
                                    {"vocab", &R::vocab, kCount},
                                    {"seq_len", &R::seq_len, kCount},
                                    {"gpus", &R::gpus, kCount},
                                    {"nodes", &R::nodes, kCount},
                                    {"dp", &R::dp, kCount},
                                    {"tp", &R::tp, kCount},
                                    {"pp", &R::pp, kCount},
                                    {"micro_batch", &R::micro_batch, kCount},
                                    {"grad_accum", &R::grad_accum, kCount},
                                    {"global_batch", &R::global_batch, kCount},
                                    {"global_batch_tokens", &R::global_batch_tokens, kTotal},
                                    {"zero_stage", &R::zero_stage, kCount}},
                                   {{"freq_ghz", &R::freq_ghz},
                                    {"memory", &R::memory},
                                    {"sec_per_iter", &R::sec_per_iter},
                                    {"samples_per_sec", &R::samples_per_sec},
                                    {"tokens_per_sec", &R::tokens_per_sec},
                                    {"tokens_per_sec_per_gpu", &R::tokens_per_sec_per_gpu},
                                    {"tflops_per_gpu", &R::tflops},
                                    {"mfu_star", &R::mfu_star},
                                    {"mfu", &R::mfu},
                                    {"hfu_star", &R::hfu_star},
                                    {"hfu", &R::hfu},
                                    {"aggregate_pflops", &R::aggregate_pflops}}};
  return kColumns;
}

// Sets one column; false for a name that is not among those we keep.
bool set_column(ReferenceRow& row, std::string_view name, std::string_view text,
                std::string_view place) {
  for (const auto& [column, member] : columns().texts) {
    if (name == column) return row.*member = text, true;
  }
  if (text.empty()) return true;
  for (const auto& [column, member, most] : columns().integers) {
    if (name == column) return row.*member = parse_integer(text, most, place), true;
  }
  for (const auto& [column, member] : columns().numbers) {
    if (name == column) return row.*member = parse_published(text, place), true;
  }
  if (name != "activation_checkpointing") return false;
  row.activation_checkpointing = parse_truth(text, place);
  return true;
}

// The columns that are needed to recompute a table's figures.
std::vector<const char*> required_columns(std::string_view file) {
  std::vector<const char*> names = {"id",           "table",
                                    "model",        "layers",
                                    "hidden",       "heads",
                                    "vocab",        "seq_len",
                                    "hardware",     "micro_batch",
                                    "status",       "anomaly",
                                    "global_batch", "activation_checkpointing"};
  const auto add = [&](std::initializer_list<const char*> more) {
    names.insert(names.end(), more);
  };
  if (file == "mpt" || file == "mosaicgpt") {
    add({"params", "gpus", "grad_accum", "global_batch_tokens", "samples_per_sec", "tokens_per_sec",
         "tokens_per_sec_per_gpu", "mfu", "hfu"});
  }
  if (file == "mpt") add({"precision", "tflops_raw"});
  if (file == "mosaicgpt") add({"mfu_star", "hfu_star"});
  if (file == "bloom") add({"gpus", "flops_basis", "date"});
  if (file == "fugaku") add({"nodes", "aggregate_pflops"});
  if (file == "bloom" || file == "fugaku") {
    add({"dp", "tp", "pp", "sec_per_iter", "tflops_per_gpu", "suggested_fix"});
  }
  return names;
}

}  // namespace

Published parse_published(std::string_view text, std::string_view place) {
  Published number{std::string(text), 0, 0.5};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number.value, std::chars_format::fixed);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(number.value)) {
    bad_cell(place, text, "a plain decimal number");
  }
  const size_t point = text.find('.');
  if (point != std::string_view::npos) {
    number.half = 0.5 * std::pow(10.0, -static_cast<double>(text.size() - point - 1));
  }
  return number;
}

int64_t ReferenceRow::devices() const { return gpus.value_or(nodes.value_or(0)); }

ModelShape ReferenceRow::shape() const {
  ModelShape shape;
  shape.name = model;
  shape.layers = layers.value_or(0);
  shape.hidden = hidden.value_or(0);
  shape.heads = heads.value_or(0);
  shape.vocab = vocab.value_or(0);
  shape.positions = seq_len.value_or(0);
  shape.ffn = 4 * shape.hidden;
  return shape;
}

Checkpointing ReferenceRow::checkpointing() const {
  return activation_checkpointing.value_or(false) ? Checkpointing::full : Checkpointing::none;
}

std::vector<ReferenceRow> reference_rows(const CsvTable& table) {
  const std::string file = table.name.substr(0, table.name.rfind(".csv"));
  for (const char* name : required_columns(file)) {
    if (!table.column(name)) {
      throw Error(ExitCode::bad_data, fmt::format("{}: no column '{}'", table.name, name), kHint);
    }
  }
  std::vector<ReferenceRow> rows;
  std::set<std::string> ids;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    ReferenceRow row;
    row.file = file;
    row.line = table.lines[i];
    for (size_t c = 0; c < table.header.size(); ++c) {
      const auto place = fmt::format("{}:{}: {}", table.name, row.line, printable(table.header[c]));
      set_column(row, table.header[c], table.rows[i][c], place);
    }
    if (row.id.empty() || !ids.insert(row.id).second) {
      throw Error(ExitCode::bad_data,
                  fmt::format("{}:{}: id '{}' is blank or used twice", table.name, row.line,
                              printable(row.id)),
                  kHint);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

ReferenceRow with_suggested_fix(const ReferenceRow& row) {
  ReferenceRow fixed = row;
  const std::string_view all = row.suggested_fix;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(';', at), all.size());
    std::string_view fix = all.substr(at, end - at);
    fix.remove_prefix(std::min(fix.find_first_not_of(' '), fix.size()));
    const size_t equals = fix.find('=');
    const auto place = fmt::format("{}.csv:{}: suggested_fix", row.file, row.line);
    if (equals == std::string_view::npos ||
        !set_column(fixed, fix.substr(0, equals), fix.substr(equals + 1), place)) {
      bad_cell(place, fix, "column=value");
    }
    at = end + 1;
  }
  return fixed;
}

}  // namespace stretto
