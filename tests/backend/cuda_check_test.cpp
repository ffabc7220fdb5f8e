// What a user reads, and a scheduler sees, when CUDA fails. No GPU is needed to fail.
#include "backend/cuda/cuda_check.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/lanes.h"
#include "backend/cuda/quantise.h"
#include "base/error.h"

namespace stretto::test {
namespace {

struct Case {
  cudaError_t status;
  ExitCode code;
  const char* advice;
};

TEST(CudaCheck, EveryFailureHasItsCodeAndAdvice) {
  const Case cases[] = {
      {cudaErrorNoDevice, ExitCode::os_error, "device=cpu"},
      {cudaErrorInsufficientDriver, ExitCode::os_error, "driver"},
      {cudaErrorNoKernelImageForDevice, ExitCode::os_error, "CMAKE_CUDA_ARCHITECTURES"},
      {cudaErrorMemoryAllocation, ExitCode::out_of_memory, "micro_batch"},
      {cudaErrorECCUncorrectable, ExitCode::peer_lost, "resume"},
      {cudaErrorLaunchFailure, ExitCode::peer_lost, "resume"},
      {cudaErrorDevicesUnavailable, ExitCode::peer_lost, "resume"},
      {cudaErrorContained, ExitCode::peer_lost, "resume"},
      {cudaErrorSystemNotReady, ExitCode::os_error, "fabricmanager"},
      {cudaErrorInitializationError, ExitCode::os_error, "driver"},
      {cudaErrorInvalidDeviceFunction, ExitCode::os_error, "CMAKE_CUDA_ARCHITECTURES"},
      {cudaErrorInvalidValue, ExitCode::internal, "report"},
  };
  for (const Case& each : cases) {
    try {
      CUDA_CHECK(each.status);
      FAIL() << cudaGetErrorName(each.status);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), each.code) << error.what();
      const std::string what = error.what();
      EXPECT_NE(what.find(cudaGetErrorName(each.status)), std::string::npos) << what;
      const bool has_place = what.find("cuda_check_test.cpp") != std::string::npos;
      EXPECT_EQ(has_place, each.code != ExitCode::os_error) << what;
      EXPECT_NE(error.hint().find(each.advice), std::string::npos) << error.hint();
    }
  }
}

// Who frees memory while an error is on its way may wait for GPUs of ranks that wait for him.
TEST(CudaCheck, MemoryIsLeftWhileAnErrorEndsOneOfSeveralRanks) {
  struct Owner {
    bool& left;
    ~Owner() { left = cuda::leave_memory(); }
  };
  const auto left_by_an_error = [] {
    bool left = false;
    try {
      const Owner owner{left};
      throw Error(ExitCode::out_of_memory, "none", "");
    } catch (const Error&) {
    }
    return left;
  };
  EXPECT_FALSE(left_by_an_error()) << "a rank alone on its GPU, or with a process of its own";
  cuda::drive_several_gpus();
  EXPECT_TRUE(left_by_an_error());
  EXPECT_FALSE(cuda::leave_memory());
}

TEST(CudaCheck, GpusOlderThanOurCodeAreRefused) {
  cudaDeviceProp gpu{};
  std::strcpy(gpu.name, "Some GPU");
  const auto allows = [&](int major, int minor) {
    gpu.major = major;
    gpu.minor = minor;
    try {
      cuda::require_supported(gpu);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::os_error);
      const std::string what = error.what();
      EXPECT_NE(what.find(fmt::format("(Some GPU) has compute capability {}.{}", major, minor)),
                std::string::npos)
          << what;
      EXPECT_NE(error.hint().find("device=cpu"), std::string::npos) << error.hint();
      return false;
    }
    return true;
  };
  EXPECT_FALSE(allows(7, 0));
  EXPECT_FALSE(allows(7, 5));
  EXPECT_TRUE(allows(8, 0));
  EXPECT_TRUE(allows(9, 0));
  EXPECT_TRUE(allows(10, 0));
}

TEST(CudaCheck, EightBitProductsAreRefusedByGpusWithoutThem) {
  cudaDeviceProp gpu{};
  const auto allows = [&](int major, int minor) {
    gpu.major = major;
    gpu.minor = minor;
    try {
      cuda::require_eight_bit_products(gpu);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_config);
      EXPECT_NE(error.hint().find("precision=amp_bf16"), std::string::npos) << error.hint();
      return false;
    }
    return true;
  };
  EXPECT_FALSE(allows(8, 0));
  EXPECT_FALSE(allows(8, 6));
  EXPECT_TRUE(allows(8, 9));
  EXPECT_TRUE(allows(9, 0));
  EXPECT_TRUE(allows(10, 0));
}

}  // namespace
}  // namespace stretto::test
