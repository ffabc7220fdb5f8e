// Configurations: a YAML text, then after a line of "%%" one override per line. Whatever the bytes,
// the answer is a Config or an Error; and what was accepted survives YAML and JSON unchanged.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/reader.h"
#include "config/rules.h"
#include "config/schema.h"
#include "config/serialize.h"

namespace stretto {
namespace {

void require_same(const Config& a, const Config& b) {
  for (const Key& key : config_keys()) {
    if (key.get(a) != key.get(b)) throw std::logic_error("round trip changed " + key.name);
  }
}

YamlNode read_tree(std::string_view input) {
  const size_t cut = input.find("\n%%\n");
  YamlNode root = parse_yaml(input.substr(0, cut), "fuzz.yaml");
  if (cut == std::string_view::npos || !root.is_mapping()) return root;
  std::string_view rest = input.substr(cut + 4);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (is_override(word)) merge_yaml(root, override_tree(word));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return root;
}

}  // namespace
}  // namespace stretto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  ResolvedConfig resolved;
  try {
    resolved = resolve_config(read_tree({reinterpret_cast<const char*>(data), size}));
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
    return 0;
  }
  for (const Finding& finding : check_config(resolved.config)) describe(finding, resolved);
  require_same(load_config_text(to_yaml(resolved), "again").config, resolved.config);
  require_same(config_from_json(to_json(resolved.config)), resolved.config);
  return 0;
}
