// Reads the planner's files: numbers with a unit and a source. Errors name the field and the fix.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded.h"
#include "config/yaml.h"
#include "plan/cluster.h"

namespace stretto::plan {

enum class Quantity { rate, bandwidth, bytes, seconds, count, fraction, per_hour, price };

struct Bounds {
  double low = 0;
  double high = 0;
  bool zero_allowed = false;
};

// One mapping of a file, and its dotted path for messages.
class Section {
 public:
  Section(const YamlNode& node, std::string path);

  // {value, unit, source, note}: converted to SI and remembered in `fields`.
  double number(std::string_view key, Quantity quantity, Bounds bounds,
                std::vector<Field>& fields) const;
  bool has(std::string_view key) const { return node_->find(key) != nullptr; }
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string fallback) const;
  double plain_or(std::string_view key, double fallback) const;  // a bare number
  bool flag_or(std::string_view key, bool fallback) const;
  Section section(std::string_view key) const;
  std::vector<Section> sections(std::string_view key) const;  // a sequence of mappings
  std::vector<std::string> words_or_empty(std::string_view key) const;
  // Throws for a key that is not in `keys`, with the nearest one that is.
  void allow(const std::vector<std::string>& keys) const;

  const YamlNode& node() const { return *node_; }
  std::string place(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, const std::string& what,
                         const std::string& fix) const;

 private:
  const YamlNode& required(std::string_view key) const;

  const YamlNode* node_;
  std::string path_;
};

// The names of compiled-in .yaml files, without their endings.
std::vector<std::string> names_of(std::span<const EmbeddedFile> files);
const EmbeddedFile* find_file(std::span<const EmbeddedFile> files, std::string_view name);

// Whether a word given for a cluster or a software is the name of a file.
bool is_file_name(std::string_view word);

// A finite decimal number, or an Error naming the place.
double parse_number(const YamlNode& node, const std::string& field);

}  // namespace stretto::plan
