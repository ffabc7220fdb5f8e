// From words to a typed Config: YAML files (later ones win), then `dotted.key=value` overrides, or
// a bare model name. Every value's origin is kept for messages and `config show`.
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

// Words are read in order, but overrides win over files wherever they are in the list. The result
// has the right types; whether it makes sense is checked by `require_valid` (rules.h). Throws
// Error: no_input for a missing file, bad_config for everything else, with a list of all problems.
// `places`: where the words were written, one per word, if not on a command line.
ResolvedConfig load_config(const std::vector<std::string>& words,
                           const std::vector<Place>& places = {});

// The same for a file of this name with this text.
ResolvedConfig load_config_text(std::string_view text, const std::string& name);

// The same for a tree that was read or built elsewhere (sweeps, records).
ResolvedConfig resolve_config(YamlNode root);

// Merges `over` into `base`, mapping by mapping. Other values are replaced, except a plain value in
// the place of a group of keys. `path` is where both belong in the configuration.
void merge_yaml(YamlNode& base, const YamlNode& over, const std::string& path = "");

// Whether a word of the command line is an override; and its tree: a.b=c gives {a: {b: c}}.
bool is_override(std::string_view word);
YamlNode override_tree(std::string_view word, const Place& place = kCommandLine);
// The override that gives a key exactly this text, even if the text looks like YAML.
std::string override_word(const std::string& key, const std::string& text);

}  // namespace stretto
