// NVIDIA GPUs through the driver's management library, loaded at run time: a program built without
// CUDA still sees the cards.
#include <dlfcn.h>

#include <array>
#include <memory>

#include "account/peaks.h"
#include "base/fs.h"
#include "machine/machine.h"

namespace stretto {
namespace {

using Handle = void*;
struct NvmlMemory {
  unsigned long long total, free, used;
};

struct Closer {
  void operator()(void* library) const { dlclose(library); }
};

template <typename Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// The functions that we use; all return 0 on success. Null pointers mean that the driver is too
// old.
struct Nvml {
  explicit Nvml(void* library)
      : init(symbol<int (*)()>(library, "nvmlInit_v2")),
        shutdown(symbol<int (*)()>(library, "nvmlShutdown")),
        count(symbol<int (*)(unsigned*)>(library, "nvmlDeviceGetCount_v2")),
        handle(symbol<int (*)(unsigned, Handle*)>(library, "nvmlDeviceGetHandleByIndex_v2")),
        name(symbol<int (*)(Handle, char*, unsigned)>(library, "nvmlDeviceGetName")),
        memory(symbol<int (*)(Handle, NvmlMemory*)>(library, "nvmlDeviceGetMemoryInfo")),
        driver(symbol<int (*)(char*, unsigned)>(library, "nvmlSystemGetDriverVersion")) {}

  bool complete() const { return init && shutdown && count && handle && name && memory && driver; }

  int (*init)();
  int (*shutdown)();
  int (*count)(unsigned*);
  int (*handle)(unsigned, Handle*);
  int (*name)(Handle, char*, unsigned);
  int (*memory)(Handle, NvmlMemory*);
  int (*driver)(char*, unsigned);
};

GpuInfo gpu_of(const Nvml& nvml, unsigned index) {
  GpuInfo gpu;
  Handle device = nullptr;
  std::array<char, 128> name{};
  NvmlMemory memory{};
  if (nvml.handle(index, &device) != 0) return gpu;
  if (nvml.name(device, name.data(), name.size() - 1) == 0) gpu.name = name.data();
  if (nvml.memory(device, &memory) == 0) gpu.memory = static_cast<int64_t>(memory.total);
  gpu.bf16_peak = device_peak(gpu.name, PeakFormat::bf16);
  gpu.tf32_peak = device_peak(gpu.name, PeakFormat::tf32);
  return gpu;
}

}  // namespace

GpuDriver probe_gpus() {
  GpuDriver driver;
  driver.device_present = posix_fs().info("/dev/nvidiactl").has_value();
  const std::unique_ptr<void, Closer> library(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL));
  if (!library) return driver;
  const Nvml nvml(library.get());
  if (!nvml.complete() || nvml.init() != 0) return driver;
  std::array<char, 96> version{};
  if (nvml.driver(version.data(), version.size() - 1) == 0) driver.version = version.data();
  unsigned count = 0;
  if (nvml.count(&count) != 0) count = 0;
  for (unsigned i = 0; i < count && i < 64; ++i) driver.gpus.push_back(gpu_of(nvml, i));
  nvml.shutdown();
  return driver;
}

}  // namespace stretto
