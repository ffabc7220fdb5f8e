// stretto version: what this program was built from.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/build_info.h"
#include "cli/verbs.h"
#include "version_info.h"

namespace stretto::cli {
namespace {

struct Part {
  const char* key;    // in JSON
  const char* name;   // for people
  std::string value;  // empty: not in this program
};

std::vector<Part> parts(const BuildInfo& build) {
  return {
      {"commit", "commit", build.commit},
      {"compiler", "compiler", STRETTO_COMPILER},
      {"build_type", "build", STRETTO_BUILD_TYPE},
      {"sanitizers", "sanitizers", STRETTO_SANITIZERS},
      {"openblas", "OpenBLAS", STRETTO_BLAS_VERSION},
      {"onednn", "oneDNN", STRETTO_ONEDNN_VERSION},
      {"mpi", "MPI", STRETTO_MPI_VERSION},
      {"cuda", "CUDA", STRETTO_CUDA_VERSION},
      {"cudnn", "cuDNN", STRETTO_CUDNN_VERSION},
      {"nccl", "NCCL", STRETTO_NCCL_VERSION},
  };
}

void print_json(const BuildInfo& build) {
  nlohmann::ordered_json out = {{"program", "stretto"}, {"version", build.version}};
  for (const Part& part : parts(build)) {
    // null: a reader can tell "not there" from a version it does not know.
    out[part.key] = nullptr;
    if (!part.value.empty()) out[part.key] = part.value;
  }
  fmt::print("{}\n", out.dump(2));
}

void print_text(const BuildInfo& build) {
  fmt::print("stretto {}\n", build.version);
  for (const Part& part : parts(build)) {
    fmt::print("  {:<11} {}\n", part.name, part.value.empty() ? "no" : part.value);
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
