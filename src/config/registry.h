// The models Stretto knows by name. Their one definition is configs/models/*.yaml, compiled into
// the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "account/model_shape.h"

namespace stretto {

struct RegistryModel {
  ModelShape shape;
  std::string family;  // mpt, gpt2, ...
  std::string file;    // configs/models/mpt.yaml
  std::string about;   // one line per family
};

// All models, family by family, in the order of the files. Parsed on first use.
const std::vector<RegistryModel>& registry_models();

const RegistryModel* lookup_model(std::string_view name);  // null when unknown

// Throws Error (no_input, as for a file that is not there) with "did you mean" for an unknown name.
ModelShape find_model(std::string_view name);

std::vector<std::string> model_names();

}  // namespace stretto
