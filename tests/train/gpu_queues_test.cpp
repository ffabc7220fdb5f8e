#include "train/gpu_queues.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace stretto {
namespace {

constexpr const char* kName = "CUDA_DEVICE_MAX_CONNECTIONS";

class GpuQueues : public testing::Test {
 protected:
  GpuQueues() : had_(std::getenv(kName) != nullptr), before_(had_ ? std::getenv(kName) : "") {}
  ~GpuQueues() override { had_ ? setenv(kName, before_.c_str(), 1) : unsetenv(kName); }

 private:
  bool had_;
  std::string before_;
};

TEST_F(GpuQueues, AreAsManyAsThereCanBe) {
  unsetenv(kName);
  EXPECT_FALSE(few_gpu_queues());
  ask_for_gpu_queues();
  EXPECT_STREQ(std::getenv(kName), "32");
  EXPECT_FALSE(few_gpu_queues());
}

TEST_F(GpuQueues, AreAsManyAsTheUserSays) {
  setenv(kName, "1", 1);
  ask_for_gpu_queues();
  EXPECT_STREQ(std::getenv(kName), "1");
  EXPECT_TRUE(few_gpu_queues());
  setenv(kName, "8", 1);
  EXPECT_FALSE(few_gpu_queues());
  setenv(kName, "", 1);  // the driver takes no notice of it
  EXPECT_FALSE(few_gpu_queues());
}

}  // namespace
}  // namespace stretto
