// What is written replaces what is there under its name: that must not be what is read.
#pragma once

#include <string>
#include <vector>

namespace stretto::cli {

// Throws Error (usage) where a file of `outputs`, which `option` with `value` asks for, is one of
// `inputs`, or a record or table in one that is a directory. Inputs may be names that are no files.
void keep_inputs(const std::string& option, const std::string& value,
                 const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

}  // namespace stretto::cli
