// Compiled instead of the backend when the build has no CUDA.
#include "backend/cuda/cuda_options.h"
#include "backend/cuda/telemetry.h"

namespace stretto {

std::unique_ptr<Backend> make_cuda_backend(int device, const CudaOptions&) {
  throw Error(ExitCode::bad_config,
              fmt::format("device=cuda (GPU {}) was asked for, but this build has no CUDA", device),
              "build with `make CUDA=1` or `cmake --preset cuda` where nvcc is installed, or use "
              "device=cpu");
}

std::unique_ptr<Backend> make_cuda_backend(int device) { return make_cuda_backend(device, {}); }

void release_cuda_device(int) {}
void require_tune_cache(int) {}

int cuda_device_count() { return 0; }

std::string cuda_device_name(int) { return ""; }
std::string cuda_bus_id(int) { return ""; }
bool cuda_is_hopper(int) { return false; }
size_t cuda_total_bytes(int) { return 0; }
size_t cuda_free_bytes(int) { return 0; }

std::unique_ptr<GpuTelemetry> open_gpu_telemetry(int) { return nullptr; }

}  // namespace stretto
