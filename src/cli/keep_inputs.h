// Refuses an output that would overwrite an input.
#pragma once

#include <string>
#include <vector>

namespace stretto::cli {

// Throws Error (usage) if one of `outputs`, which were requested by `option` with `value`, is one
// of `inputs`, or a record or table in one that is a directory. Inputs may be names without a file.
void keep_inputs(const std::string& option, const std::string& value,
                 const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

}  // namespace stretto::cli
