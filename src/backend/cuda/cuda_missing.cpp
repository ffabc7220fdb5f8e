// Compiled instead of the backend when the build has no CUDA.
#include "backend/backend.h"

namespace stretto {

std::unique_ptr<Backend> make_cuda_backend(int device) {
  throw Error(ExitCode::bad_config,
              fmt::format("device=cuda (GPU {}) was asked for, but this build has no CUDA", device),
              "build with `make CUDA=1` or `cmake --preset cuda` where nvcc is installed, or use "
              "device=cpu");
}

}  // namespace stretto
