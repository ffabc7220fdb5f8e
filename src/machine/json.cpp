#include <nlohmann/json.hpp>

#include "machine/machine.h"

namespace stretto {
namespace {

using nlohmann::json;

json optional_json(const std::optional<double>& value) { return value ? json(*value) : json(); }

json cpu_json(const CpuInfo& cpu) {
  json out = {{"model", cpu.model},
              {"architecture", cpu.architecture},
              {"logical", cpu.logical},
              {"usable", cpu.usable},
              {"cores", cpu.cores},
              {"sockets", cpu.sockets},
              {"numa_nodes", cpu.numa_nodes},
              {"virtual_machine", cpu.virtual_machine},
              {"simd", cpu.simd},
              {"simd_target", cpu.simd_target},
              {"caches", json::array()}};
  for (const CacheInfo& cache : cpu.caches) {
    out["caches"].push_back({{"level", cache.level},
                             {"kind", cache.kind},
                             {"bytes", cache.bytes},
                             {"instances", cache.instances}});
  }
  return out;
}

json gpu_json(const GpuDriver& driver) {
  json out = {{"driver", driver.version}, {"devices", json::array()}};
  for (const GpuInfo& gpu : driver.gpus) {
    out["devices"].push_back({{"name", gpu.name},
                              {"memory_bytes", gpu.memory},
                              {"bf16_peak", optional_json(gpu.bf16_peak)},
                              {"tf32_peak", optional_json(gpu.tf32_peak)},
                              {"bf16_measured", optional_json(gpu.bf16_measured)}});
  }
  return out;
}

}  // namespace

json to_json(const MachineInfo& m) {
  json out = {
      {"host", m.host},
      {"system", m.system},
      {"cpu", cpu_json(m.cpu)},
      {"memory",
       {{"total_bytes", m.memory.total},
        {"available_bytes", m.memory.available},
        {"limit_bytes", m.memory.limit}}},
      {"gpu", gpu_json(m.gpu)},
      {"mpi",
       {{"in_build", m.mpi.in_build}, {"version", m.mpi.version}, {"launcher", m.mpi.launcher}}},
      {"disk",
       {{"path", m.disk.path},
        {"free_bytes", m.disk.free},
        {"write_bytes_per_second", optional_json(m.disk.write_bytes_per_second)}}},
      {"missing", json::array()}};
  if (m.rates) {
    out["measured"] = {{"fma_flops_one_core", m.rates->fma_one_core},
                       {"fma_flops", m.rates->fma},
                       {"gemm_flops", m.rates->gemm},
                       {"triad_bytes_per_second", m.rates->triad},
                       {"message_seconds", m.rates->message_seconds},
                       {"message_bytes_per_second", m.rates->message_rate}};
    if (m.rates->fma_from_product) out["measured"]["fma_from_product"] = true;
    if (m.rates->bf16_gemm > 0) out["measured"]["bf16_gemm_flops"] = m.rates->bf16_gemm;
    if (m.rates->cores.usable > 0) out["measured"]["other_cores"] = m.rates->cores.others;
  }
  for (const MissingPart& part : m.missing) {
    out["missing"].push_back(
        {{"what", part.what}, {"effect", part.effect}, {"command", part.command}});
  }
  return out;
}

}  // namespace stretto
