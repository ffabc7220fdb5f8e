#include "backend/cuda/telemetry.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/dynamic_library.h"
#include "base/log.h"
#include "base/start_thread.h"

namespace stretto {
namespace {

// The few functions of NVML we use, declared here: its header is not part of every toolkit.
struct Nvml {
  using Device = void*;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_by_pci_bus_id)(const char*, Device*) = nullptr;
  int (*clock)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*throttle_reasons)(Device, unsigned long long*) = nullptr;

  // False when the library or one of the functions is missing.
  bool load() {
    DynamicLibrary library("libnvidia-ml.so.1");
    library.find(init, "nvmlInit_v2");
    library.find(shutdown, "nvmlShutdown");
    library.find(device_by_pci_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
    library.find(clock, "nvmlDeviceGetClockInfo");
    library.find(power, "nvmlDeviceGetPowerUsage");
    library.find(temperature, "nvmlDeviceGetTemperature");
    library.find(throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    return library.why_unusable().empty();
  }
};

constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;

class NvmlTelemetry final : public GpuTelemetry {
 public:
  NvmlTelemetry(const Nvml& nvml, Nvml::Device device) : nvml_(nvml), device_(device) {}
  ~NvmlTelemetry() override {
    end_thread();
    nvml_.shutdown();
  }

  GpuSample sample() override {
    // A figure that the driver refuses stays 0: telemetry never stops a run.
    unsigned sm = 0, memory = 0, milliwatts = 0, celsius = 0;
    unsigned long long reasons = 0;
    nvml_.clock(device_, kClockSm, &sm);
    nvml_.clock(device_, kClockMemory, &memory);
    nvml_.power(device_, &milliwatts);
    nvml_.temperature(device_, kTemperatureGpu, &celsius);
    nvml_.throttle_reasons(device_, &reasons);
    return {static_cast<double>(sm), static_cast<double>(memory), milliwatts / 1000.0,
            static_cast<double>(celsius), reasons};
  }

  void start() override {
    end_thread();
    window_ = {};
    running_ = true;
    thread_ = start_thread<std::thread>("the thread that asks how the GPU is", [this] {
      while (true) {
        const GpuSample now = sample();  // takes milliseconds: not under the lock
        std::unique_lock lock(mutex_);
        last_ = now;
        add(now);
        wake_.wait_for(lock, std::chrono::milliseconds(100), [this] { return !running_; });
        if (!running_) return;
      }
    });
  }

  GpuWindow take() override {
    const std::lock_guard lock(mutex_);
    if (window_.samples == 0 && last_) add(*last_);  // a short step: as it was a moment ago
    GpuWindow window = window_;
    window_ = {};
    if (window.samples > 0) {
      window.sm_clock_mhz_mean /= window.samples;
      window.memory_clock_mhz_mean /= window.samples;
      window.power_watts_mean /= window.samples;
    }
    return window;
  }

  void stop() override { end_thread(); }

 private:
  void add(const GpuSample& s) {
    GpuWindow& w = window_;
    w.sm_clock_mhz_min =
        w.samples == 0 ? s.sm_clock_mhz : std::min(w.sm_clock_mhz_min, s.sm_clock_mhz);
    ++w.samples;
    w.sm_clock_mhz_mean += s.sm_clock_mhz;
    w.memory_clock_mhz_mean += s.memory_clock_mhz;
    w.power_watts_mean += s.power_watts;
    w.power_watts_max = std::max(w.power_watts_max, s.power_watts);
    w.temperature_c_max = std::max(w.temperature_c_max, s.temperature_c);
    w.throttle_reasons |= s.throttle_reasons;
  }

  void end_thread() {
    {
      const std::lock_guard lock(mutex_);
      running_ = false;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  Nvml nvml_;
  Nvml::Device device_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool running_ = false;
  GpuWindow window_;  // sums until take()
  std::optional<GpuSample> last_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<GpuTelemetry> open_gpu_telemetry(int device) {
  Nvml nvml;
  char bus_id[32] = {};
  if (cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), device) != cudaSuccess || !nvml.load() ||
      nvml.init() != 0) {
    spdlog::debug("cuda: no NVML, so no clocks or power in the records");
    return nullptr;
  }
  Nvml::Device handle = nullptr;
  if (nvml.device_by_pci_bus_id(bus_id, &handle) != 0) {
    nvml.shutdown();
    return nullptr;
  }
  return std::make_unique<NvmlTelemetry>(nvml, handle);
}

}  // namespace stretto
