// Files that were packed and would pass for text.
#pragma once

#include "base/fs.h"

namespace stretto {

// Known by their first bytes (gzip, zstd, xz, bzip2, lz4, zip): bad_data, with the command that
// unpacks them. `otherwise`: what else can be done, after that.
void refuse_compressed(File& file, const char* otherwise = "");

}  // namespace stretto
