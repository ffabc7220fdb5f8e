// Dense peak FLOP/s of devices by number format, as their makers state them. A device or format
// that is not in the table has an "unknown peak": nothing is divided by a guess.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "account/run_shape.h"

namespace stretto {

enum class PeakFormat { fp32, tf32, bf16, fp16, fp8 };

const char* name_of(PeakFormat format);

// The format whose peak a run's matrix products are compared with. `tf32`: fp32 products run on
// tensor cores.
PeakFormat peak_format(Precision precision, bool tf32);

struct DevicePeak {
  const char* name;              // as we print it: "A100", "H100 PCIe"
  double fp32, tf32, half, fp8;  // FLOP/s dense; 0 = the device does not have the format
};

// Whether a driver's name for a GPU is that of a MIG slice: "NVIDIA H200 MIG 1g.18gb". A slice has
// some of the card's units, and no clock of its own.
bool is_gpu_slice(std::string_view device);

// Finds a whole device by the name that a driver, a record or a published table uses, in any case
// and with additions: "NVIDIA H100 80GB HBM3", "a100_40gb".
std::optional<DevicePeak> find_device(std::string_view device);
const std::vector<DevicePeak>& known_devices();

// FLOP/s of one device, or nothing.
std::optional<double> device_peak(std::string_view device, PeakFormat format);

// One A64FX node (48 cores, two 512-bit FMA pipes) at `ghz`.
double a64fx_peak(double ghz, PeakFormat format);

// "989.5 TFLOP/s" or "unknown peak".
std::string format_peak(std::optional<double> peak);

// "220 GFLOP/s", "1.85 TFLOP/s"
std::string format_rate(double flops, int digits);

}  // namespace stretto
