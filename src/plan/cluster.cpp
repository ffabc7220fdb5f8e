#include "plan/cluster.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/suggest.h"
#include "plan/fields.h"

namespace stretto {
std::span<const EmbeddedFile> embedded_clusters();
}

namespace stretto::plan {
namespace {

constexpr Bounds kRate{1e8, 1e18};
constexpr Bounds kBandwidth{1e5, 1e17};
constexpr Bounds kHostBandwidth{1e5, 1e17, true};
constexpr double kPcie4 = 27e9;  // bytes/s of copies in each direction
constexpr Bounds kBytes{1e6, 1e15};
constexpr Bounds kLatency{1e-9, 10, true};

int64_t whole(const Section& s, std::string_view key, Bounds bounds, std::vector<Field>& fields) {
  const double value = s.number(key, Quantity::count, bounds, fields);
  if (value != static_cast<double>(static_cast<int64_t>(value))) {
    s.fail(key, "is not a whole number", "write a whole number");
  }
  return static_cast<int64_t>(value);
}

void read_device(const Section& d, Cluster& c) {
  d.allow({"name", "matrix_rate", "matrix_rate_fp8", "vector_rate", "units", "alignment",
           "memory_bandwidth", "memory"});
  c.device = d.text("name");
  c.matrix_flops = d.number("matrix_rate", Quantity::rate, kRate, c.fields);
  if (d.has("matrix_rate_fp8")) {
    c.matrix_flops_fp8 = d.number("matrix_rate_fp8", Quantity::rate, kRate, c.fields);
  }
  c.vector_flops = d.number("vector_rate", Quantity::rate, kRate, c.fields);
  c.units = whole(d, "units", {1, 1e6}, c.fields);
  c.alignment = whole(d, "alignment", {1, 4096}, c.fields);
  c.memory_bandwidth = d.number("memory_bandwidth", Quantity::bandwidth, kBandwidth, c.fields);
  c.memory_bytes = d.number("memory", Quantity::bytes, kBytes, c.fields);
}

void read_node(const Section& n, Cluster& c) {
  n.allow({"devices", "link_bandwidth", "link_latency", "host_bandwidth"});
  c.devices_per_node = whole(n, "devices", {1, 1e6}, c.fields);
  c.link_bandwidth = n.number("link_bandwidth", Quantity::bandwidth, kBandwidth, c.fields);
  c.link_latency = n.number("link_latency", Quantity::seconds, kLatency, c.fields);
  if (n.has("host_bandwidth")) {
    c.host_bandwidth = n.number("host_bandwidth", Quantity::bandwidth, kHostBandwidth, c.fields);
  } else {
    c.host_bandwidth = kPcie4;
    c.fields.push_back({"node.host_bandwidth", kPcie4 / 1e9, "GB/s", Source::default_value,
                        "not in the file: PCIe 4 x16"});
  }
}

void read_tiers(const Section& root, Cluster& c) {
  for (const Section& t : root.sections("tiers")) {
    t.allow({"name", "nodes", "bandwidth", "latency"});
    Tier tier;
    tier.name = t.text("name");
    tier.nodes = whole(t, "nodes", {1, 1e9, true}, c.fields);
    tier.bytes_per_second = t.number("bandwidth", Quantity::bandwidth, kBandwidth, c.fields);
    tier.latency = t.number("latency", Quantity::seconds, kLatency, c.fields);
    c.tiers.push_back(tier);
  }
  if (c.tiers.back().nodes != 0) {
    root.fail("tiers", "ends with a tier of limited size",
              "give the outermost tier `nodes: {value: 0, ...}`: it holds all the rest");
  }
}

void read_operation(const Section& o, Cluster& c) {
  o.allow({"failures", "checkpoint_bandwidth", "restart", "straggler", "price", "max_devices"});
  c.failures_per_device_hour = o.number("failures", Quantity::per_hour, {1e-12, 1, true}, c.fields);
  c.checkpoint_bandwidth =
      o.number("checkpoint_bandwidth", Quantity::bandwidth, kBandwidth, c.fields);
  c.restart_seconds = o.number("restart", Quantity::seconds, {1e-3, 1e6, true}, c.fields);
  c.straggler_sigma = o.number("straggler", Quantity::fraction, {1e-6, 1, true}, c.fields);
  c.price_per_device_hour = o.number("price", Quantity::price, {1e-6, 1e6, true}, c.fields);
  if (o.has("max_devices")) c.max_devices = whole(o, "max_devices", {1, 1e9}, c.fields);
}

Cluster from_node(const YamlNode& node) {
  const Section root(node, "");
  root.allow({"name", "description", "device", "node", "tiers", "operation"});
  Cluster c;
  c.name = root.text("name");
  c.description = root.text_or("description", "");
  read_device(root.section("device"), c);
  read_node(root.section("node"), c);
  read_tiers(root, c);
  read_operation(root.section("operation"), c);
  return c;
}

}  // namespace

Cluster read_cluster(std::string_view yaml, std::string_view origin) {
  return from_node(parse_yaml(yaml, std::string(origin)));
}

std::vector<std::string> cluster_names() { return names_of(embedded_clusters()); }

Cluster find_cluster(const std::string& name_or_path) {
  if (const EmbeddedFile* file = find_file(embedded_clusters(), name_or_path)) {
    return read_cluster(file->content, fmt::format("configs/clusters/{}", file->name));
  }
  if (is_file_name(name_or_path)) return from_node(read_yaml_file(name_or_path));
  const std::vector<std::string> names = cluster_names();
  throw Error(
      ExitCode::bad_config, fmt::format("unknown cluster '{}'", name_or_path),
      did_you_mean(name_or_path, names, "known: " + join_or(names) + "; or name a .yaml file"));
}

}  // namespace stretto::plan
