#include "backend/cuda/cuda_check.h"

#include <cstring>

#include "backend/cuda/cublas_library.h"
#include "base/error.h"

namespace stretto {
namespace {

const char* short_name(const char* file) {
  const char* name = std::strstr(file, "src/");
  return name ? name : file;
}

struct Advice {
  ExitCode code;
  const char* hint;
};

Advice advice_for(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return {
          ExitCode::out_of_memory,
          "use a smaller micro_batch or activation_checkpointing; `stretto plan` says what fits"};
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorStubLibrary:
    case cudaErrorInitializationError:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorSystemDriverMismatch:
      return {ExitCode::os_error,
              "needs an NVIDIA GPU and a driver of the build's CUDA version or newer (see "
              "nvidia-smi); device=cpu runs without"};
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInvalidDeviceFunction:
      return {ExitCode::os_error,
              "the program holds no code for this GPU; rebuild with "
              "-DCMAKE_CUDA_ARCHITECTURES=native (sm_80 or newer)"};
    case cudaErrorSystemNotReady:
      return {ExitCode::os_error,
              "the machine's GPUs are not ready: start nvidia-fabricmanager (machines with "
              "NVSwitch), or try again when the system is up"};
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchTimeout:
    case cudaErrorLaunchFailure:
    case cudaErrorContained:
    case cudaErrorUnknown:
      return {ExitCode::peer_lost,
              "the GPU stopped working; run again to resume from the last checkpoint, on another "
              "GPU if it happens twice"};
    default:
      return {ExitCode::internal, "this is a bug in Stretto; please report the command"};
  }
}

}  // namespace

void cuda_failed(cudaError_t status, const char* call, const char* file, int line) {
  const Advice advice = advice_for(status);
  std::string what =
      fmt::format("GPU: {} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  // Where it was noticed says nothing of a machine that cannot run GPU code at all.
  if (advice.code != ExitCode::os_error) {
    what += fmt::format(" in {} at {}:{}", call, short_name(file), line);
  }
  throw Error(advice.code, what, advice.hint);
}

void throw_if_gpu_failed(const char* call, const char* file, int line) {
  // A question that every broken context answers with its error, and that waits for nothing.
  const cudaError_t status = cudaStreamQuery(cudaStreamPerThread);
  if (status != cudaSuccess && status != cudaErrorNotReady) cuda_failed(status, call, file, line);
}

void cublas_failed(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR) {
    throw_if_gpu_failed(call, file, line);
  }
  throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? ExitCode::out_of_memory : ExitCode::internal,
              fmt::format("cuBLASLt: {} failed with {} at {}:{}", call,
                          cuda::cublas_lt().status_string(status), short_name(file), line),
              "this is a bug in Stretto; please report the command");
}

void cuda::require_supported(const cudaDeviceProp& gpu) {
  if (gpu.major >= 8) return;
  throw Error(
      ExitCode::os_error,
      fmt::format("the GPU ({}) has compute capability {}.{}", gpu.name, gpu.major, gpu.minor),
      "Stretto's GPU code needs 8.0 (A100) or newer; device=cpu runs without");
}

}  // namespace stretto
