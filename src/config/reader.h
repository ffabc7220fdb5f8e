// From words to a typed Config: YAML files (later ones win), then `dotted.key=value` overrides, or
// a bare model name. The origin of every value is kept for messages and `config show`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/yaml.h"

namespace stretto {

inline const Place kCommandLine{Source::command_line, "command line", 0, 0};

struct Origin {
  std::string key;  // dotted
  Place place;
};

struct ResolvedConfig {
  Config config;
  std::vector<Origin> origins;  // one per key, in the order of config_keys()

  const Place& origin_of(std::string_view key) const;
};

// Words are read in order, but overrides beat files wherever they stand. The result has the right
// types; `require_valid` (rules.h) checks that it makes sense. Throws Error: no_input for a missing
// file, bad_config for everything else, listing every problem that was found. `places`: where words
// were written, in their order, if not on a command line.
ResolvedConfig load_config(const std::vector<std::string>& words,
                           const std::vector<Place>& places = {});

// The same from one text: what a file of this name would give.
ResolvedConfig load_config_text(std::string_view text, const std::string& name);

// The same from a tree that was read or built elsewhere (sweeps, records).
ResolvedConfig resolve_config(YamlNode root);

// Lays `over` on `base`, mapping by mapping; other values are replaced, but for one that stands
// where a group of keys belongs. `path` is where both lie in the configuration.
void merge_yaml(YamlNode& base, const YamlNode& over, const std::string& path = "");

// Whether a command-line word is an override, and its tree: a.b=c gives {a: {b: c}}.
bool is_override(std::string_view word);
YamlNode override_tree(std::string_view word, const Place& place = kCommandLine);
// The override that gives the key this very text, also where it looks like YAML.
std::string override_word(const std::string& key, const std::string& text);

}  // namespace stretto
