// stretto version: what this program was built from.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/verbs.h"
#include "version_info.h"

namespace stretto::cli {
namespace {

struct Part {
  const char* key;         // in JSON
  const char* name;        // for people
  std::string_view value;  // empty: not in this program
};

constexpr std::array kParts = {
    Part{"commit", "commit", STRETTO_COMMIT},
    Part{"compiler", "compiler", STRETTO_COMPILER},
    Part{"build_type", "build", STRETTO_BUILD_TYPE},
    Part{"sanitizers", "sanitizers", STRETTO_SANITIZERS},
    Part{"openblas", "OpenBLAS", STRETTO_BLAS_VERSION},
    Part{"onednn", "oneDNN", STRETTO_ONEDNN_VERSION},
    Part{"mpi", "MPI", STRETTO_MPI_VERSION},
    Part{"cuda", "CUDA", STRETTO_CUDA_VERSION},
    Part{"cudnn", "cuDNN", STRETTO_CUDNN_VERSION},
    Part{"nccl", "NCCL", STRETTO_NCCL_VERSION},
};

void print_json() {
  nlohmann::ordered_json out = {{"program", "stretto"}, {"version", STRETTO_VERSION}};
  for (const Part& part : kParts) {
    // null: a reader can tell "not there" from a version it does not know.
    out[part.key] = part.value.empty() ? nlohmann::ordered_json() : part.value;
  }
  fmt::print("{}\n", out.dump(2));
}

void print_text() {
  fmt::print("stretto {}\n", STRETTO_VERSION);
  for (const Part& part : kParts) {
    fmt::print("  {:<11} {}\n", part.name, part.value.empty() ? "no" : part.value);
  }
}

}  // namespace

void add_version(Command& app) {
  Command* verb = app.add_subcommand("version",
                                     "Examples:\n"
                                     "  stretto version           versions of all parts\n"
                                     "  stretto version --json    the same for programs\n"
                                     "  stretto --version         short for stretto version\n\n"
                                     "What this program was built from");
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "One JSON object; null for a part that is not there");
  verb->callback([json] { *json ? print_json() : print_text(); });
}

}  // namespace stretto::cli
