#include "cli/page.h"

#include <fmt/format.h>

#include "base/terminal.h"
#include "base/wrap.h"

namespace stretto::cli {

void write_page(std::string_view text, size_t hanging) {
  fmt::print("{}", fit_page(for_stdout(text), output_width(), hanging));
}

}  // namespace stretto::cli
