// Words and names that a shell, a batch file and a file system take as they are.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

// 'text' for a POSIX shell; one word whatever it holds.
std::string shell_quoted(std::string_view text);

// The same, bare where that is harmless.
std::string shell_word(std::string_view text);

// [A-Za-z0-9._-]{1,128}, without "..", not beginning with '.' or '-': safe as a file name and as an
// argument.
bool is_safe_name(std::string_view text);

}  // namespace stretto
