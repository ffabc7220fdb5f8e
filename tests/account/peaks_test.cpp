#include "account/peaks.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(Peaks, ByAnySpelling) {
  for (const char* name : {"NVIDIA H100 80GB HBM3", "h100_80gb", "H100", "NVIDIA H200"}) {
    EXPECT_EQ(device_peak(name, PeakFormat::bf16), 989.5e12) << name;
    EXPECT_EQ(device_peak(name, PeakFormat::fp8), 1979e12) << name;
  }
  for (const char* name : {"NVIDIA A100-SXM4-40GB", "a100_80gb"}) {
    EXPECT_EQ(device_peak(name, PeakFormat::bf16), 312e12) << name;
    EXPECT_EQ(device_peak(name, PeakFormat::tf32), 156e12) << name;
    EXPECT_EQ(device_peak(name, PeakFormat::fp32), 19.5e12) << name;
  }
  EXPECT_EQ(device_peak("NVIDIA H100 PCIe", PeakFormat::bf16), 756e12);
  for (const char* name : {"NVIDIA H100 NVL", "NVIDIA H200 NVL"}) {
    EXPECT_EQ(device_peak(name, PeakFormat::bf16), 835.5e12) << name;
  }
  EXPECT_EQ(device_peak("Tesla V100-SXM2-32GB", PeakFormat::fp16), 125e12);
  EXPECT_EQ(device_peak("Tesla V100-PCIE-16GB", PeakFormat::fp16), 112e12);
}

TEST(Peaks, UnknownIsEmptyNeverANumber) {
  for (const char* name : {"", "NVIDIA H1000", "Intel(R) Xeon(R)", "A100X"}) {
    EXPECT_FALSE(device_peak(name, PeakFormat::bf16).has_value()) << name;
  }
  EXPECT_FALSE(device_peak("A100", PeakFormat::fp8).has_value());
  EXPECT_FALSE(device_peak("V100", PeakFormat::bf16).has_value());
  EXPECT_EQ(format_peak(std::nullopt), "unknown peak");
  EXPECT_EQ(format_peak(989.5e12), "989.5 TFLOP/s");
  for (const DevicePeak& device : known_devices()) EXPECT_GT(device.half, 0) << device.name;
}

// A slice computes on some of a card's units, and its name holds the card's.
TEST(Peaks, ASliceOfACardHasNone) {
  for (const char* name : {"NVIDIA H200 MIG 1g.18gb", "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
                           "nvidia h100 80gb hbm3 mig 7g.80gb"}) {
    EXPECT_FALSE(find_device(name).has_value()) << name;
    EXPECT_FALSE(device_peak(name, PeakFormat::bf16).has_value()) << name;
  }
}

TEST(Peaks, A64fxScalesWithTheClock) {
  EXPECT_DOUBLE_EQ(a64fx_peak(2.0, PeakFormat::fp32), 6.144e12);
  EXPECT_DOUBLE_EQ(a64fx_peak(2.2, PeakFormat::fp32), 6.7584e12);
  EXPECT_DOUBLE_EQ(a64fx_peak(2.0, PeakFormat::fp16), 12.288e12);
}

}  // namespace
}  // namespace stretto
