// stretto version: what this program was built from.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/build_info.h"
#include "cli/verbs.h"

namespace stretto::cli {
namespace {

void print_json(const BuildInfo& build) {
  nlohmann::ordered_json out = {{"program", "stretto"}, {"version", build.version}};
  for (const BuildPart& part : build_parts()) {
    // A null is a part that is not built in; the key is always there.
    out[part.key] = nullptr;
    if (!part.version.empty()) out[part.key] = part.version;
  }
  fmt::print("{}\n", out.dump(2));
}

void print_text(const BuildInfo& build) {
  fmt::print("stretto {}\n", build.version);
  for (const BuildPart& part : build_parts()) {
    fmt::print("  {:<11} {}\n", part.name, part.version.empty() ? "no" : part.version);
  }
}

}  // namespace

void add_version(Command& app) {
  Command* verb = app.add_subcommand("version",
                                     "What this program was built from\n\n"
                                     "Examples:\n"
                                     "  stretto version           versions of all parts\n"
                                     "  stretto version --json    the same for programs\n"
                                     "  stretto --version         short for stretto version\n");
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "One JSON object; null for a part that is not there");
  verb->callback([json] { *json ? print_json(build_info()) : print_text(build_info()); });
}

}  // namespace stretto::cli
