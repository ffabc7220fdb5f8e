// ${key} and ${variables.key} inside values, as OmegaConf users know them.
#pragma once

#include <string>
#include <vector>

#include "config/yaml.h"

namespace stretto {

class Interpolator {
 public:
  // `root` must outlive this object; values are looked up there, by dotted path.
  explicit Interpolator(const YamlNode& root) : root_(root) {}

  // The node with every ${...} replaced. `\${` stands for a plain "${". A value that is nothing
  // but one ${key} may become a list or mapping. Throws Error (bad_config): unknown key, a cycle,
  // or an expansion that grows beyond all reason.
  YamlNode expand(const YamlNode& node);

 private:
  void expand_scalar(YamlNode& node);
  YamlNode value_of(const std::string& path, const Place& place);
  const YamlNode* look_up(const std::string& path) const;
  void spend(size_t amount, const Place& place);

  const YamlNode& root_;
  std::vector<std::string> open_;  // keys being expanded, to see cycles
  size_t budget_ = 1 << 20;        // characters and nodes; doubling chains end here
};

}  // namespace stretto
