#include "account/peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/units.h"

namespace stretto {
namespace {

constexpr double kTera = 1e12;

// Dense figures from the makers' data sheets. More specific names come first, because the first
// entry whose words all occur is taken. H100 SXM has the figures that published tables use: 1979 /
// 2 for bf16.
const std::vector<DevicePeak>& table() {
  static const std::vector<DevicePeak> kTable = {
      {"H100 PCIe", 51.2 * kTera, 378 * kTera, 756 * kTera, 1513 * kTera},
      {"H100 NVL", 60 * kTera, 417.5 * kTera, 835.5 * kTera, 1670.5 * kTera},
      {"H100", 67 * kTera, 494.75 * kTera, 989.5 * kTera, 1979 * kTera},
      {"H200 NVL", 60 * kTera, 417.5 * kTera, 835.5 * kTera, 1670.5 * kTera},
      {"H200", 67 * kTera, 494.75 * kTera, 989.5 * kTera, 1979 * kTera},
      {"GH200", 67 * kTera, 494.75 * kTera, 989.5 * kTera, 1979 * kTera},
      {"A100", 19.5 * kTera, 156 * kTera, 312 * kTera, 0},
      {"L40S", 91.6 * kTera, 183 * kTera, 362 * kTera, 733 * kTera},
      {"L4", 30.3 * kTera, 60 * kTera, 121 * kTera, 242.5 * kTera},
      {"T4", 8.1 * kTera, 0, 65 * kTera, 0},
      {"V100 PCIE", 14 * kTera, 0, 112 * kTera, 0},
      {"V100", 15.7 * kTera, 0, 125 * kTera, 0},
  };
  return kTable;
}

// Lower-case words: "NVIDIA H100 80GB_HBM3" -> nvidia h100 80gb hbm3.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (char raw : text) {
    const auto c = static_cast<unsigned char>(raw);
    if (std::isalnum(c) != 0) {
      words.back() += static_cast<char>(std::tolower(c));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

double peak_of(const DevicePeak& device, PeakFormat format) {
  switch (format) {
    case PeakFormat::fp32:
      return device.fp32;
    case PeakFormat::tf32:
      return device.tf32;
    case PeakFormat::fp16:
      return device.half;
    // V100 and T4 have fp16 tensor cores but no bf16.
    case PeakFormat::bf16:
      return device.tf32 > 0 ? device.half : 0;
    case PeakFormat::fp8:
      return device.fp8;
  }
  return 0;
}

}  // namespace

const char* name_of(PeakFormat format) {
  constexpr const char* kNames[] = {"fp32", "tf32", "bf16", "fp16", "fp8"};
  return kNames[static_cast<int>(format)];
}

PeakFormat peak_format(Precision precision, bool tf32) {
  switch (precision) {
    case Precision::fp32:
      return tf32 ? PeakFormat::tf32 : PeakFormat::fp32;
    case Precision::amp_fp16:
      return PeakFormat::fp16;
    case Precision::amp_fp8:
      return PeakFormat::fp8;
    case Precision::amp_bf16:
    case Precision::bf16:
      return PeakFormat::bf16;
  }
  return PeakFormat::fp32;
}

const std::vector<DevicePeak>& known_devices() { return table(); }

bool is_gpu_slice(std::string_view device) {
  const auto words = words_of(device);
  return std::find(words.begin(), words.end(), "mig") != words.end();
}

std::optional<DevicePeak> find_device(std::string_view device) {
  if (is_gpu_slice(device)) return std::nullopt;
  const auto have = words_of(device);
  for (const DevicePeak& entry : table()) {
    const auto want = words_of(entry.name);
    const bool all = std::all_of(want.begin(), want.end(), [&](const std::string& word) {
      return std::find(have.begin(), have.end(), word) != have.end();
    });
    if (all) return entry;
  }
  return std::nullopt;
}

std::optional<double> device_peak(std::string_view device, PeakFormat format) {
  const auto entry = find_device(device);
  if (!entry) return std::nullopt;
  const double peak = peak_of(*entry, format);
  return peak > 0 ? std::optional(peak) : std::nullopt;
}

double a64fx_peak(double ghz, PeakFormat format) {
  // Per cycle: 48 cores x 2 pipes x 16 fp32 lanes x 2; half precision has twice the lanes. No
  // tensor unit, so bf16 and fp8 arithmetic run no faster than fp32.
  const double fp32 = 48 * 64 * ghz * 1e9;
  return format == PeakFormat::fp16 ? 2 * fp32 : fp32;
}

std::string format_rate(double flops, int digits) {
  const auto [unit, name] = flops < 1e9    ? std::pair(1e6, "MFLOP/s")
                            : flops < 1e12 ? std::pair(1e9, "GFLOP/s")
                            : flops < 1e15 ? std::pair(1e12, "TFLOP/s")
                                           : std::pair(1e15, "PFLOP/s");
  return fmt::format("{} {}", format_digits(flops / unit, digits), name);
}

std::string format_peak(std::optional<double> peak) {
  return peak ? fmt::format("{:.4g} TFLOP/s", *peak / kTera) : "unknown peak";
}

}  // namespace stretto
