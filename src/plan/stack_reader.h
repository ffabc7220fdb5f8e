// Software profiles from configs/software: facts about a stack, and the constants that fits found.
#pragma once

#include <string>
#include <string_view>

#include "plan/stack.h"

namespace stretto::plan {

// The stack as it runs on `device`: its constants there if they were fitted, else its defaults.
Stack read_stack(std::string_view yaml, std::string_view origin, std::string_view device);

Constant constant_from_key(std::string_view key);  // throws Error with the nearest key

// The `devices:` entry of a software file for these constants, ready to paste.
std::string device_entry(const Stack& stack, const std::string& device, const std::string& source,
                         double residual, bool fitted = true);

// A file that find_stack takes: this entry, laid over the software that the stack is.
std::string stack_file(const Stack& stack, const std::string& entry);

}  // namespace stretto::plan
