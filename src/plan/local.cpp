#include "plan/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace stretto::plan {
namespace {

using nlohmann::json;

double number_at(const json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number()) return 0;
  const double value = it->get<double>();
  return std::isfinite(value) && value > 0 && value < 1e21 ? value : 0;
}

json object_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_object() ? *it : json::object();
}

std::string first_gpu(const json& machine) {
  const json gpu = object_at(machine, "gpu");
  const auto devices = gpu.find("devices");
  if (devices == gpu.end() || !devices->is_array() || devices->empty()) return "";
  const auto name = devices->front().find("name");
  return name != devices->front().end() && name->is_string() ? name->get<std::string>() : "";
}

}  // namespace

std::optional<MachineFigures> read_machine(const std::string& text) {
  const json machine = json::parse(text, nullptr, false);
  if (!machine.is_object()) return std::nullopt;
  const json rates = object_at(machine, "measured");
  MachineFigures m;
  m.cores = static_cast<int64_t>(std::min(1e6, number_at(object_at(machine, "cpu"), "usable")));
  m.gemm = number_at(rates, "gemm_flops");
  m.bf16_gemm = number_at(rates, "bf16_gemm_flops");
  if (m.bf16_gemm == 0) m.bf16_gemm = m.gemm;
  m.fma = number_at(rates, "fma_flops");
  m.fma_one_core = number_at(rates, "fma_flops_one_core");
  m.bandwidth = number_at(rates, "triad_bytes_per_second");
  const json memory = object_at(machine, "memory");
  m.memory = number_at(memory, "limit_bytes");
  if (m.memory == 0) m.memory = number_at(memory, "total_bytes");
  m.call_seconds = number_at(rates, "message_seconds");
  m.message_rate = number_at(rates, "message_bytes_per_second");
  m.gpu = first_gpu(machine);
  if (m.cores < 1 || m.gemm == 0 || m.bandwidth == 0 || m.memory == 0) return std::nullopt;
  return m;
}

Cluster local_cluster(const MachineFigures& m, int64_t threads, int64_t ranks) {
  Cluster c = find_cluster("local");
  const int64_t per_rank = std::clamp<int64_t>(threads, 1, m.cores);
  const double share = static_cast<double>(per_rank) / static_cast<double>(m.cores);
  const auto set = [&](const char* key, double& field, double value, const char* unit,
                       double factor, const char* note) {
    field = value;
    for (Field& f : c.fields) {
      if (f.key == key) f = {key, value / factor, unit, Source::microbenchmark, note};
    }
  };
  c.description = fmt::format("this machine: {}, measured", counted(m.cores, "core"));
  set("device.matrix_rate", c.matrix_flops, m.bf16_gemm * share, "GFLOP/s", 1e9,
      "matrix product in 16 bits, this rank's cores");
  set("device.vector_rate", c.vector_flops, m.gemm * share, "GFLOP/s", 1e9, "the same in fp32");
  // As in `bench`: a few cores may run at a higher clock than all of them together, and all ranks
  // together have no more than all cores.
  const double one = m.fma > 0 ? m.fma_one_core / m.fma : 0;
  const double core = std::max(1 / static_cast<double>(m.cores), one);
  const auto at_once = std::clamp<int64_t>(ranks, 1, std::max<int64_t>(1, m.cores / per_rank));
  c.fma_flops = m.fma * std::min(1.0, core * static_cast<double>(per_rank * at_once)) /
                static_cast<double>(at_once);
  set("device.memory_bandwidth", c.memory_bandwidth, m.bandwidth * share, "GB/s", 1e9,
      "triad, this rank's share");
  const double memory_share = std::min(share, 1 / static_cast<double>(std::max<int64_t>(1, ranks)));
  set("device.memory", c.memory_bytes, m.memory * 0.95 * memory_share, "GiB", 0x1p30,
      "this rank's share, a twentieth stays with the system");
  c.units = per_rank;
  c.devices_per_node = std::max<int64_t>(1, m.cores / per_rank);
  c.time_shared = true;
  // A collective of two ranks waits once; a sum counts as two collectives.
  if (m.call_seconds > 0) {
    set("node.link_latency", c.link_latency, m.call_seconds / 2, "us", 1e-6, "two ranks");
  }
  if (m.message_rate > 0) {
    set("node.link_bandwidth", c.link_bandwidth, m.message_rate, "GB/s", 1e9,
        "two ranks, long sum, ring volume");
  }
  return c;
}

}  // namespace stretto::plan
