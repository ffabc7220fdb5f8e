// Compiled instead of nccl_comm.cpp where the build has no NCCL.
#include "base/log.h"
#include "parallel/nccl_comm.h"

namespace stretto {

bool wants_nccl(Comm& world, Backend&, NcclUse use) {
  if (use == NcclUse::automatic) {
    if (world.size() > 1 && world.rank() == 0) {
      spdlog::warn("this build has no NCCL: GPU ranks talk through host memory");
    }
    return false;
  }
  throw Error(ExitCode::bad_config, "parallel.gpu_transport=nccl, but this build has no NCCL",
              "build with CUDA where nccl.h is installed (libnccl-dev), or use "
              "parallel.gpu_transport=host");
}

void let_go_of_nccl(std::span<Comm* const>) {}

std::unique_ptr<Comm> make_nccl_comm(Comm&, Backend&, bool) {
  STRETTO_CHECK(false, "this build has no NCCL");
}

}  // namespace stretto
