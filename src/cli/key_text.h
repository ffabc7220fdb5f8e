// Keys of a configuration in words.
#pragma once

#include <string>

#include "config/schema.h"

namespace stretto::cli {

// "steps", "f32 or bf16", "MHz or auto": what may stand behind the =.
std::string values_of(const Key& key);

// As configurations spell it. Of a model's fields nothing: without a model they say nothing.
std::string default_of(const Key& key);

}  // namespace stretto::cli
