#include "base/units.h"

#include <charconv>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/log.h"

namespace stretto {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kCounts[] = {{"", 1},    {"k", 1e3}, {"K", 1e3}, {"M", 1e6},
                            {"G", 1e9}, {"B", 1e9}, {"T", 1e12}};
constexpr Unit kBytes[] = {{"", 1},         {"B", 1},        {"kB", 1e3},    {"KB", 1e3},
                           {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10},
                           {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
constexpr Unit kSeconds[] = {{"", 1},     {"ms", 1e-3}, {"s", 1},
                             {"min", 60}, {"h", 3600},  {"d", 86400}};

double parse(std::string_view text, std::span<const Unit> units, const char* what,
             const char* forms) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, value);
  if (ec == std::errc() && std::isfinite(value)) {
    const std::string_view unit(stop, static_cast<size_t>(end - stop));
    for (const Unit& u : units) {
      if (u.name == unit) return value * u.factor;
    }
  }
  throw Error(ExitCode::bad_config,
              fmt::format("'{}' is not a {}", printable(text.substr(0, 60)), what), forms);
}

int64_t to_integer(double value, std::string_view text) {
  if (std::fabs(value) > 9.0e18 || value != std::floor(value)) {
    throw Error(
        ExitCode::bad_config,
        fmt::format("'{}' is not a whole number that fits 64 bits", printable(text.substr(0, 60))),
        "write a whole number");
  }
  return static_cast<int64_t>(value);
}

}  // namespace

int64_t parse_count(std::string_view text) {
  int64_t exact = 0;  // so that plain integers keep all 64 bits
  const auto [stop, ec] = std::from_chars(text.data(), text.data() + text.size(), exact);
  if (ec == std::errc() && stop == text.data() + text.size()) return exact;
  return to_integer(parse(text, kCounts, "count", "write it as 2048, 64k, 2M or 300B"), text);
}

int64_t parse_bytes(std::string_view text) {
  return to_integer(
      std::floor(parse(text, kBytes, "size in bytes", "write it as 512MiB, 80GiB or 40GB")), text);
}

double parse_seconds(std::string_view text) {
  return parse(text, kSeconds, "duration", "write it as 500ms, 90s, 30min, 2h or 60d");
}

std::string format_count(double value) {
  const double a = std::fabs(value);
  if (a < 1e3) return fmt::format("{:g}", value);
  if (a < 1e6) return fmt::format("{:.4g}k", value / 1e3);
  if (a < 1e9) return fmt::format("{:.4g}M", value / 1e6);
  if (a < 1e12) return fmt::format("{:.4g}B", value / 1e9);
  return fmt::format("{:.4g}T", value / 1e12);
}

std::string format_change(double share, int decimals) {
  const std::string text = fmt::format("{:+.{}f} %", 100 * share, decimals);
  return text.find_first_of("123456789") == std::string::npos && std::isfinite(share)
             ? text.substr(1)
             : text;
}

std::string format_digits(double value, int digits) {
  const bool all_whole = std::fabs(value) >= std::pow(10, digits) - 0.5;
  return all_whole ? fmt::format("{:.0f}", value) : fmt::format("{:.{}g}", value, digits);
}

std::string format_bytes(double bytes) {
  const double a = std::fabs(bytes);
  if (a < 0x1p10) return fmt::format("{:.0f} B", bytes);
  if (a < 0x1p20) return fmt::format("{:.2f} KiB", bytes / 0x1p10);
  if (a < 0x1p30) return fmt::format("{:.2f} MiB", bytes / 0x1p20);
  if (a < 0x1p40) return fmt::format("{:.2f} GiB", bytes / 0x1p30);
  return fmt::format("{:.2f} TiB", bytes / 0x1p40);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.2f} s", seconds);
  const double whole = std::round(seconds);
  if (whole < 3600) {
    return fmt::format("{:.0f} min {:02.0f} s", std::floor(whole / 60), std::fmod(whole, 60));
  }
  const double minutes = std::round(seconds / 60);
  if (minutes < 2880) {
    return fmt::format("{:.0f} h {:02.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
  }
  return fmt::format("{:.1f} d", seconds / 86400);
}

std::string counted(int64_t count, std::string_view thing) {
  const char* plural = thing.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : plural);
}

std::string with_commas(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace stretto
