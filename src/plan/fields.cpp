#include "plan/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "config/suggest.h"

namespace stretto::plan {
namespace {

struct Unit {
  const char* name;
  Quantity quantity;
  double factor;
};

constexpr Unit kUnits[] = {
    {"GFLOP/s", Quantity::rate, 1e9},      {"TFLOP/s", Quantity::rate, 1e12},
    {"PFLOP/s", Quantity::rate, 1e15},     {"MB/s", Quantity::bandwidth, 1e6},
    {"GB/s", Quantity::bandwidth, 1e9},    {"TB/s", Quantity::bandwidth, 1e12},
    {"Gb/s", Quantity::bandwidth, 1.25e8}, {"GB", Quantity::bytes, 1e9},
    {"MiB", Quantity::bytes, 0x1p20},      {"GiB", Quantity::bytes, 0x1p30},
    {"us", Quantity::seconds, 1e-6},       {"ms", Quantity::seconds, 1e-3},
    {"s", Quantity::seconds, 1},           {"min", Quantity::seconds, 60},
    {"count", Quantity::count, 1},         {"fraction", Quantity::fraction, 1},
    {"%", Quantity::fraction, 0.01},       {"1/h", Quantity::per_hour, 1},
    {"$/h", Quantity::price, 1},
};

std::string unit_names(Quantity quantity) {
  std::vector<std::string> names;
  for (const Unit& unit : kUnits) {
    if (unit.quantity == quantity) names.emplace_back(unit.name);
  }
  return join_or(names);
}

struct SourceName {
  const char* name;
  Source source;
};
constexpr SourceName kSources[] = {{"data sheet", Source::data_sheet},
                                   {"microbenchmark", Source::microbenchmark},
                                   {"fitted", Source::fitted},
                                   {"default", Source::default_value}};

}  // namespace

const char* name_of(Source source) {
  for (const SourceName& s : kSources) {
    if (s.source == source) return s.name;
  }
  return "?";
}

std::vector<std::string> names_of(std::span<const EmbeddedFile> files) {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : files) {
    names.emplace_back(file.name.substr(0, file.name.rfind(".yaml")));
  }
  return names;
}

const EmbeddedFile* find_file(std::span<const EmbeddedFile> files, std::string_view name) {
  for (const EmbeddedFile& file : files) {
    if (file.name.substr(0, file.name.rfind(".yaml")) == name) return &file;
  }
  return nullptr;
}

bool is_file_name(std::string_view word) {
  return word.find('/') != std::string_view::npos || word.ends_with(".yaml");
}

double parse_number(const YamlNode& node, const std::string& field) {
  double value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto result = std::from_chars(node.text.data(), end, value);
  if (!node.is_scalar() || result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) {
    throw Error(ExitCode::bad_config,
                fmt::format("{}: {} is '{}', not a finite number", node.place.text(), field,
                            printable(node.text)),
                "write a plain decimal number such as 312 or 2.0e-5");
  }
  return value;
}

Section::Section(const YamlNode& node, std::string path) : node_(&node), path_(std::move(path)) {
  if (!node.is_mapping()) {
    throw Error(ExitCode::bad_config,
                fmt::format("{}: {} is not a mapping", node.place.text(),
                            path_.empty() ? "the file" : path_),
                "write `key: value` lines; see configs/clusters/h100.yaml");
  }
}

std::string Section::place(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void Section::fail(std::string_view key, const std::string& what, const std::string& fix) const {
  const YamlNode* node = node_->find(key);
  throw Error(ExitCode::bad_config,
              fmt::format("{}: {} {}", (node ? *node : *node_).place.text(), place(key), what),
              fix);
}

const YamlNode& Section::required(std::string_view key) const {
  const YamlNode* node = node_->find(key);
  if (node == nullptr) fail(key, "is missing", fmt::format("add `{}`", key));
  return *node;
}

std::string Section::text(std::string_view key) const {
  const YamlNode& node = required(key);
  if (!node.is_scalar() || node.text.empty()) fail(key, "is not a text", "write one line of text");
  return node.text;
}

std::string Section::text_or(std::string_view key, std::string fallback) const {
  return has(key) ? text(key) : std::move(fallback);
}

double Section::plain_or(std::string_view key, double fallback) const {
  const YamlNode* node = node_->find(key);
  return node == nullptr ? fallback : parse_number(*node, place(key));
}

bool Section::flag_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const std::string value = text(key);
  if (value != "true" && value != "false") fail(key, "is not true or false", "write true or false");
  return value == "true";
}

Section Section::section(std::string_view key) const { return {required(key), place(key)}; }

std::vector<Section> Section::sections(std::string_view key) const {
  const YamlNode& node = required(key);
  if (!node.is_sequence() || node.items.empty()) {
    fail(key, "is not a list", "write one `- ` entry or more");
  }
  std::vector<Section> out;
  for (size_t i = 0; i < node.items.size(); ++i) {
    out.emplace_back(node.items[i], fmt::format("{}[{}]", place(key), i));
  }
  return out;
}

std::vector<std::string> Section::words_or_empty(std::string_view key) const {
  std::vector<std::string> out;
  const YamlNode* node = node_->find(key);
  if (node == nullptr) return out;
  if (!node->is_sequence()) fail(key, "is not a list", "write [a, b, c]");
  for (const YamlNode& item : node->items) out.push_back(item.text);
  return out;
}

void Section::allow(const std::vector<std::string>& keys) const {
  for (const YamlKey& key : node_->keys) {
    if (std::find(keys.begin(), keys.end(), key.name) != keys.end()) continue;
    throw Error(ExitCode::bad_config,
                fmt::format("{}: unknown field {}", key.place.text(), printable(place(key.name))),
                did_you_mean(key.name, keys, "the fields here are " + join_or(keys)));
  }
}

double Section::number(std::string_view key, Quantity quantity, Bounds bounds,
                       std::vector<Field>& fields) const {
  const Section parts(required(key), place(key));
  parts.allow({"value", "unit", "source", "note"});
  if (!parts.has("unit")) {
    fail(key, "has no unit", fmt::format("add `unit:` with {}", unit_names(quantity)));
  }
  const std::string unit = parts.text("unit");
  const std::string source = parts.text("source");
  Field field{place(key), 0, unit, Source::default_value, parts.text_or("note", "")};
  double factor = 0;
  for (const Unit& u : kUnits) {
    if (u.quantity == quantity && unit == u.name) factor = u.factor;
  }
  if (factor == 0) {
    fail(key, fmt::format("has the unit '{}'", printable(unit)),
         fmt::format("use {}", unit_names(quantity)));
  }
  bool known = false;
  for (const SourceName& s : kSources) {
    if (source != s.name) continue;
    field.source = s.source;
    known = true;
  }
  if (!known) {
    fail(key, fmt::format("has the source '{}'", printable(source)),
         "use data sheet, microbenchmark, fitted or default");
  }
  const YamlNode& value = parts.required("value");
  field.value = parse_number(value, place(key));
  const double si = field.value * factor;
  if (si == 0 && !bounds.zero_allowed) {
    fail(key, "is zero", "give the true value; a device without it cannot run");
  }
  const bool inside = si == 0 || (si >= bounds.low && si <= bounds.high);
  if (!inside) {
    fail(key,
         fmt::format("is {} {}, outside {:.3g} to {:.3g} {}", value.text, unit, bounds.low / factor,
                     bounds.high / factor, unit),
         "check the value and its unit");
  }
  fields.push_back(field);
  return si;
}

}  // namespace stretto::plan
