#include "bench/build_info.h"

#include <fmt/format.h>

#include "stretto_commit.h"
#include "version_info.h"

namespace stretto {

BuildInfo build_info() {
  BuildInfo info;
  info.version = STRETTO_VERSION;
  info.commit = STRETTO_COMMIT;
#if defined(__clang__)
  info.compiler = fmt::format("clang {}", __clang_version__);
#else
  info.compiler = fmt::format("g++ {}", __VERSION__);
#endif
  info.flags = STRETTO_FLAGS;
  for (const BuildPart& part : build_libraries()) {
    if (part.version.empty()) continue;
    if (!info.libraries.empty()) info.libraries += "; ";
    info.libraries += fmt::format("{} {}", part.name, part.version);
  }
  return info;
}

const char* source_date() { return STRETTO_COMMIT_DATE; }

std::vector<BuildPart> build_tools() {
  return {{"compiler", "compiler", STRETTO_COMPILER},
          {"build_type", "build", STRETTO_BUILD_TYPE},
          {"sanitizers", "sanitizers", STRETTO_SANITIZERS}};
}

std::vector<BuildPart> build_libraries() {
  return {{"openblas", "OpenBLAS", STRETTO_BLAS_VERSION},
          {"onednn", "oneDNN", STRETTO_ONEDNN_VERSION},
          {"mpi", "MPI", STRETTO_MPI_VERSION},
          {"cuda", "CUDA", STRETTO_CUDA_VERSION},
          {"cudnn", "cuDNN", STRETTO_CUDNN_VERSION},
          {"nccl", "NCCL", STRETTO_NCCL_VERSION}};
}

}  // namespace stretto
