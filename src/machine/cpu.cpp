// Processors, caches and memory, from /proc and /sys.
#include <sys/utsname.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/control_groups.h"
#include "base/cores.h"
#include "base/host.h"
#include "machine/fma.h"
#include "machine/machine.h"
#include "machine/system_text.h"

namespace stretto {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<CacheInfo> probe_caches(int64_t processors) {
  std::map<std::tuple<int, std::string, int64_t>, std::map<std::string, int>> found;
  for (int64_t cpu = 0; cpu < processors; ++cpu) {
    for (int index = 0; index < 8; ++index) {
      const std::string base = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                               "/cache/index" + std::to_string(index) + "/";
      const std::string level = first_line(kernel_file(base + "level"));
      const auto bytes = read_cache_size(kernel_file(base + "size"));
      if (level.empty() || !bytes) break;
      std::string kind = first_line(kernel_file(base + "type"));
      std::transform(kind.begin(), kind.end(), kind.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      const std::string shared = first_line(kernel_file(base + "shared_cpu_list"));
      ++found[{level[0] - '0', kind, *bytes}][shared];
    }
  }
  std::vector<CacheInfo> caches;
  for (const auto& [key, instances] : found) {
    const auto& [level, kind, bytes] = key;
    caches.push_back({level, kind, bytes, static_cast<int64_t>(instances.size())});
  }
  return caches;
}

std::vector<std::string> simd_of(const std::vector<std::string>& flags) {
  constexpr const char* kKnown[] = {
      "sse4_2",      "avx",         "f16c",        "fma",      "avx2",     "avx512f",  "avx512bw",
      "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd",
      "asimdhp",     "sve",         "sve2",        "bf16",     "i8mm"};
  std::vector<std::string> have;
  for (const char* name : kKnown) {
    if (std::find(flags.begin(), flags.end(), name) != flags.end()) have.emplace_back(name);
  }
  return have;
}

}  // namespace

CpuInfo probe_cpu() {
  const CpuText text = read_cpuinfo(kernel_file("/proc/cpuinfo"));
  CpuInfo cpu;
  cpu.model = text.model.empty() ? "unknown" : text.model;
  utsname names{};
  if (uname(&names) == 0) cpu.architecture = names.machine;
  cpu.logical = std::max<int64_t>(1, text.logical);
  cpu.usable = std::min(cpu.logical, usable_cores());
  cpu.cores = text.cores;
  cpu.sockets = text.sockets;
  cpu.numa_nodes =
      std::max<int64_t>(1, count_cpu_list(kernel_file("/sys/devices/system/node/online")));
  cpu.virtual_machine =
      std::find(text.flags.begin(), text.flags.end(), "hypervisor") != text.flags.end();
  cpu.caches = probe_caches(cpu.logical);
  cpu.simd = simd_of(text.flags);
  cpu.simd_target = fma_target();
  return cpu;
}

MemoryInfo probe_memory() {
  const std::string text = kernel_file("/proc/meminfo");
  MemoryInfo memory;
  memory.total = read_meminfo(text, "MemTotal").value_or(0);
  memory.available = read_meminfo(text, "MemAvailable").value_or(0);
  const auto limit = memory_limit();
  if (limit && *limit < memory.total) memory.limit = *limit;
  return memory;
}

}  // namespace stretto
