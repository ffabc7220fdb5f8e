#include "bench/build_info.h"

#include <cblas.h>
#include <fmt/format.h>

#include "stretto_commit.h"

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
  info.libraries = openblas_get_config();
  return info;
}

}  // namespace stretto
