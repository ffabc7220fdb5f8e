// Text that is safe for a shell, a batch file or a file name.
#pragma once

#include <string>
#include <string_view>

namespace stretto {

// In single quotes for a POSIX shell: always one word, whatever it contains.
std::string shell_quoted(std::string_view text);

// The same, but unquoted if that is harmless.
std::string shell_word(std::string_view text);

// Whether it matches [A-Za-z0-9._-]{1,128}, without "..", and does not begin with '.' or '-': safe
// as a file name and as an argument.
bool is_safe_name(std::string_view text);

}  // namespace stretto
