// ${key} and ${variables.key} inside values, as in OmegaConf.
#pragma once

#include <string>
#include <vector>

#include "config/yaml.h"

namespace stretto {

class Interpolator {
 public:
  // `root` must outlive this object; values are looked up there, by dotted path.
  explicit Interpolator(const YamlNode& root) : root_(root) {}

  // The node with every ${...} replaced; `\${` stands for a literal "${". A value that consists of
  // a single ${key} may become a list or mapping. Throws Error (bad_config) for an unknown key, a
  // cycle, or an expansion that becomes far too long.
  YamlNode expand(const YamlNode& node);

 private:
  void expand_scalar(YamlNode& node);
  YamlNode value_of(const std::string& path, const Place& place);
  const YamlNode* look_up(const std::string& path) const;
  void spend(size_t amount, const Place& place);

  const YamlNode& root_;
  std::vector<std::string> open_;  // being expanded, to detect cycles
  size_t budget_ = 1 << 20;        // characters and nodes; stops chains that double their length
};

}  // namespace stretto
