#include "backend/cuda/telemetry.h"

namespace stretto {
namespace {

constexpr uint64_t kPowerCap = 0x4, kPowerBrake = 0x80;

}  // namespace

std::string throttle_text(uint64_t reasons) {
  struct Reason {
    uint64_t bit;
    const char* text;
  };
  // Bit numbers of nvmlClocksEventReasons.
  constexpr Reason kReasons[] = {
      {0x2, "application clocks"},  {kPowerCap, "power cap"},     {0x8, "hardware slowdown"},
      {0x10, "sync boost"},         {0x20, "thermal (software)"}, {0x40, "thermal (hardware)"},
      {kPowerBrake, "power brake"}, {0x100, "display clocks"},
  };
  std::string text;
  for (const Reason& reason : kReasons) {
    if ((reasons & reason.bit) == 0) continue;
    if (!text.empty()) text += ", ";
    text += reason.text;
  }
  return text.empty() ? "none" : text;
}

bool power_capped(uint64_t reasons) { return (reasons & (kPowerCap | kPowerBrake)) != 0; }

}  // namespace stretto
