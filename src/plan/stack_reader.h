// Reads software profiles from configs/software: facts about a stack, and the constants that fits
// have found.
#pragma once

#include <string>
#include <string_view>

#include "plan/stack.h"

namespace stretto::plan {

// The stack on `device`: with the constants fitted there, else with its defaults.
Stack read_stack(std::string_view yaml, std::string_view origin, std::string_view device);

Constant constant_from_key(std::string_view key);  // throws Error with the nearest key

// These constants as an entry of `devices:` in a software file, ready to paste.
std::string device_entry(const Stack& stack, const std::string& device, const std::string& source,
                         double residual, bool fitted = true);

// A file for find_stack: this entry, on top of the software that the stack is.
std::string stack_file(const Stack& stack, const std::string& entry);

}  // namespace stretto::plan
