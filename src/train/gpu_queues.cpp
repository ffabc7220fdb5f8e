#include "train/gpu_queues.h"

#include <cstdlib>

namespace stretto {
namespace {

constexpr const char* kName = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr int kUsual = 8;

}  // namespace

void ask_for_gpu_queues() { setenv(kName, "32", /*replace=*/0); }

bool few_gpu_queues() {
  const char* asked = std::getenv(kName);
  const int queues = asked == nullptr ? 0 : std::atoi(asked);
  return queues > 0 && queues < kUsual;
}

}  // namespace stretto
