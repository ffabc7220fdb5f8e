// Strict YAML. yaml-cpp parses; what configurations must not contain is refused here, with its
// place: duplicate keys, anchors, aliases, tags, keys that are not words, a second document, more
// than 64 levels, bytes that are no text. Every node knows where it was written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto {

// Where a value comes from, from weakest to strongest.
enum class Source { default_value, derived, registry, file, command_line };

struct Place {
  Source source = Source::default_value;
  std::string file;  // file name, or what the value was derived from
  int line = 0;      // from 1
  int column = 0;

  std::string text() const;       // configs/my.yaml:14:7, "command line", "default"
  std::string line_text() const;  // the same without the column
};

struct YamlKey {
  std::string name;
  Place place;
};

struct YamlNode {
  enum class Kind { null, scalar, sequence, mapping };

  Kind kind = Kind::null;
  std::string text;     // scalar
  bool quoted = false;  // scalar written in quotes
  Place place;
  std::vector<YamlKey> keys;    // mapping: keys[i] names items[i]
  std::vector<YamlNode> items;  // sequence or mapping

  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_mapping() const { return kind == Kind::mapping; }
  bool is_sequence() const { return kind == Kind::sequence; }

  const YamlNode* find(std::string_view key) const;  // null when absent or not a mapping
  YamlNode* find(std::string_view key);
  void set(std::string_view key, YamlNode value);  // replaces or appends
};

constexpr int kMaxYamlDepth = 64;
constexpr size_t kMaxYamlBytes = 1 << 20;

YamlNode yaml_scalar(std::string text, Place place);

// `name` appears in messages. An empty text gives an empty mapping. Throws Error (bad_config).
YamlNode parse_yaml(std::string_view text, const std::string& name);

// Reads the whole file first. Throws no_input if it is missing, bad_config if it is a directory,
// too large, or no text.
YamlNode read_yaml_file(const std::string& path);

// Throws Error (bad_config) unless `text` is UTF-8 without control characters (tab and line ends
// excepted).
void require_text(std::string_view text, const std::string& name);

}  // namespace stretto
