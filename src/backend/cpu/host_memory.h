#pragma once

#include <cstddef>

#include "tensor/arena.h"

namespace stretto {

// Host memory aligned for SIMD, with huge pages for large sizes; throws out_of_memory.
Buffer allocate_host(size_t bytes, const char* label);

}  // namespace stretto
