// What a user sees who asks for a GPU that is not there, in builds with and without CUDA.
#include <gtest/gtest.h>

#include "backend/cuda/cuda_options.h"
#include "backend/cuda/telemetry.h"

namespace stretto::test {
namespace {

TEST(CudaWithoutGpu, SaysWhatIsMissingAndWhatToDo) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "this machine has a GPU";
  try {
    make_cuda_backend(0);
    FAIL() << "a backend without a GPU";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ExitCode::bad_config || error.code() == ExitCode::os_error);
    EXPECT_NE(error.hint().find("device=cpu"), std::string::npos) << error.hint();
  }
  EXPECT_EQ(open_gpu_telemetry(0), nullptr);
}

TEST(CudaWithGpu, RefusesADeviceThatDoesNotExist) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  EXPECT_THROW(make_cuda_backend(cuda_device_count()), Error);
}

TEST(GpuTelemetry, NamesThrottleReasons) {
  EXPECT_EQ(throttle_text(0), "none");
  EXPECT_EQ(throttle_text(1), "none");  // idle
  EXPECT_EQ(throttle_text(0x4), "power cap");
  EXPECT_TRUE(power_capped(0x4) && power_capped(0x80 | 0x20));
  EXPECT_FALSE(power_capped(0) || power_capped(0x20));
  EXPECT_EQ(throttle_text(0x60), "thermal (software), thermal (hardware)");
}

}  // namespace
}  // namespace stretto::test
