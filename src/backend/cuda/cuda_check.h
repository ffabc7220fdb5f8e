// One check per library: a failed call throws Error with the call, the reason and what to do.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

namespace stretto {

[[noreturn]] void cuda_failed(cudaError_t status, const char* call, const char* file, int line);
// Throws if the GPU itself has failed, which its libraries may call a failure of theirs.
void throw_if_gpu_failed(const char* call, const char* file, int line);
[[noreturn]] void cublas_failed(cublasStatus_t status, const char* call, const char* file,
                                int line);

namespace cuda {
void require_supported(const cudaDeviceProp& gpu);  // throws: it is too old for our code
}

}  // namespace stretto

#define CUDA_CHECK(call)                                          \
  do {                                                            \
    const cudaError_t status_ = (call);                           \
    if (status_ != cudaSuccess) [[unlikely]] {                    \
      ::stretto::cuda_failed(status_, #call, __FILE__, __LINE__); \
    }                                                             \
  } while (false)

#define CUBLAS_CHECK(call)                                          \
  do {                                                              \
    const cublasStatus_t status_ = (call);                          \
    if (status_ != CUBLAS_STATUS_SUCCESS) [[unlikely]] {            \
      ::stretto::cublas_failed(status_, #call, __FILE__, __LINE__); \
    }                                                               \
  } while (false)

// After every <<<>>>: a launch that the driver refused must not pass for an empty result.
#define CUDA_CHECK_LAUNCH() CUDA_CHECK(cudaPeekAtLastError())
