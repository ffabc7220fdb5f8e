// Files that would pass for text and are none.
#pragma once

#include "base/fs.h"

namespace stretto {

// Known by their first bytes (packed files, UTF-16, PDF, tables and arrays): bad_data, with the
// command that makes text of them. `otherwise`: what else can be done, after that.
void require_plain_text(File& file, const char* otherwise = "");

// In front of UTF-8 it says nothing, and is no part of the text.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
bool has_byte_order_mark(File& file);

}  // namespace stretto
