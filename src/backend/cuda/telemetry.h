// What the GPU was doing while we measured: clocks, power, temperature, and why it held back.
// NVML is opened at run time; without it there is no telemetry and everything else works.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace stretto {

struct GpuSample {
  double sm_clock_mhz = 0;
  double memory_clock_mhz = 0;
  double power_watts = 0;
  double temperature_c = 0;
  uint64_t throttle_reasons = 0;  // NVML's bits
};

struct GpuWindow {
  int samples = 0;
  double sm_clock_mhz_mean = 0, sm_clock_mhz_min = 0;
  double memory_clock_mhz_mean = 0;
  double power_watts_mean = 0, power_watts_max = 0;
  double temperature_c_max = 0;
  uint64_t throttle_reasons = 0;  // all that were seen
};

class GpuTelemetry {
 public:
  virtual ~GpuTelemetry() = default;
  virtual GpuSample sample() = 0;
  virtual void start() = 0;      // samples every 100 ms on a thread of its own
  virtual GpuWindow take() = 0;  // what was seen since start() or the last take(); it goes on
  virtual void stop() = 0;
};

// Null when the machine has no NVML or the build no CUDA.
std::unique_ptr<GpuTelemetry> open_gpu_telemetry(int device);

// "power cap, thermal (software)"; "none" for 0. An idle GPU is no reason.
std::string throttle_text(uint64_t reasons);
bool power_capped(uint64_t reasons);

}  // namespace stretto
