// Recognizes files that could be taken for text but are not.
#pragma once

#include "base/fs.h"

namespace stretto {

// Looks at the first bytes (compressed files, UTF-16 and -32, PDF, tables and arrays). Throws
// bad_data with the command that converts the file to text, followed by `otherwise`: what else can
// be done.
void require_plain_text(File& file, const char* otherwise = "");

// Where the text begins: after a byte order mark, which has no meaning in UTF-8.
int64_t text_begin(File& file);

}  // namespace stretto
