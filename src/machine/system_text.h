// Parsers for texts of the kernel. Pure functions, so that tests can describe other machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

struct CpuText {
  std::string model;
  int64_t logical = 0, cores = 0, sockets = 0;
  std::vector<std::string> flags;
};

CpuText read_cpuinfo(std::string_view text);                                       // /proc/cpuinfo
std::optional<int64_t> read_meminfo(std::string_view text, std::string_view key);  // bytes
std::optional<int64_t> read_cache_size(std::string_view text);                     // "48K" -> bytes
int64_t count_cpu_list(std::string_view text);                                     // "0-3,8" -> 5
// From /proc/stat: clock ticks that these cores were busy, with other virtual machines as well;
// none if a core is not listed.
std::optional<int64_t> read_busy_ticks(std::string_view text, const std::vector<int>& cores);
std::optional<std::string> read_os_release(std::string_view text);  // PRETTY_NAME

}  // namespace stretto
