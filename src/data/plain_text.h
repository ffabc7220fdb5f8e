// Files that would pass for text and are none.
#pragma once

#include "base/fs.h"

namespace stretto {

// Known by their first bytes (packed files, UTF-16 and -32, PDF, tables and arrays): bad_data, with
// the command that makes text of them. `otherwise`: what else can be done, after that.
void require_plain_text(File& file, const char* otherwise = "");

// Where the text begins: behind a byte order mark, which in front of UTF-8 says nothing.
int64_t text_begin(File& file);

}  // namespace stretto
