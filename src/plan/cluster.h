// A cluster as the cost model sees it: devices, nodes, and the network above them. Every number
// comes from a file with its unit and its source, and keeps both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ceil_div.h"

namespace stretto::plan {

// Where a number comes from decides how far it is trusted.
enum class Source { data_sheet, microbenchmark, fitted, default_value };
const char* name_of(Source source);

struct Field {
  std::string key;
  double value = 0;  // as written, in `unit`
  std::string unit;
  Source source = Source::default_value;
  std::string note;
};

struct Tier {  // one level of switches above the nodes
  std::string name;
  int64_t nodes = 0;            // nodes below one switch of this tier; 0: all of them
  double bytes_per_second = 0;  // per node into this tier, one direction
  double latency = 0;           // seconds per hop
};

struct Cluster {
  std::string name;
  std::string description;
  std::string device;  // key of the fitted constants
  // One device.
  double matrix_flops = 0;      // dense bf16/fp16
  double matrix_flops_fp8 = 0;  // 0: none
  double vector_flops = 0;      // fp32 outside the matrix units
  // As measured on this machine: the peak for MFU where matrix products cannot reach it. Else 0.
  double fma_flops = 0;
  int64_t units = 0;  // multiprocessors (GPU) or cores (CPU)
  // The matrix units want sizes that are multiples of so many elements; 1: any size.
  int64_t alignment = 8;
  double memory_bandwidth = 0;  // bytes/s
  double memory_bytes = 0;
  // One node.
  int64_t devices_per_node = 1;
  bool time_shared = false;   // a single machine, on which more ranks than devices take turns
  double link_bandwidth = 0;  // bytes/s per device, one direction, inside the link domain
  double link_latency = 0;
  double host_bandwidth = 0;  // bytes/s per device, each direction, both at once; 0: its own host
  std::vector<Tier> tiers;    // innermost first; at least one
  // Operation.
  double failures_per_device_hour = 0;
  double checkpoint_bandwidth = 0;  // bytes/s the whole cluster writes
  double restart_seconds = 0;
  double straggler_sigma = 0;        // relative spread of step time between nodes
  double price_per_device_hour = 0;  // 0: unknown
  int64_t max_devices = 0;           // 0: unlimited
  std::vector<Field> fields;         // every number above with its unit and source

  bool has_gpus() const { return host_bandwidth > 0; }
  bool is_hopper() const { return device.starts_with("h100") || device.starts_with("h200"); }
  int64_t nodes_for(int64_t devices) const {
    return time_shared ? 1 : ceil_div(devices, devices_per_node);
  }
  double node_bandwidth() const { return tiers.front().bytes_per_second; }
  double network_latency() const { return tiers.front().latency; }
};

Cluster read_cluster(std::string_view yaml, std::string_view origin);  // strict
Cluster find_cluster(const std::string& name_or_path);                 // embedded name, or a file
std::vector<std::string> cluster_names();

}  // namespace stretto::plan
