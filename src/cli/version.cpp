// stretto version: what this program was built from.
#include <fmt/format.h>

#include "cli/verbs.h"

namespace stretto::cli {

void add_version(Command& app) {
  Command* verb = app.add_subcommand("version", "What this program was built from");
  verb->callback([] { fmt::print("stretto 0.1.0\n"); });
}

}  // namespace stretto::cli
