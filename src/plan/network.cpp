#include "plan/network.h"

#include <algorithm>
#include <cmath>

namespace stretto::plan {
namespace {

// The bandwidth of the narrowest tier that a group of `nodes` nodes crosses; `latency` becomes the
// largest of these tiers.
double uplink(const Cluster& cluster, int64_t nodes, double* latency) {
  double rate = cluster.tiers.front().bytes_per_second;
  *latency = cluster.tiers.front().latency;
  for (size_t i = 1; i < cluster.tiers.size(); ++i) {
    if (nodes <= cluster.tiers[i - 1].nodes || cluster.tiers[i - 1].nodes == 0) break;
    rate = std::min(rate, cluster.tiers[i].bytes_per_second);
    *latency = std::max(*latency, cluster.tiers[i].latency);
  }
  return rate;
}

}  // namespace

double ring_hops(double nodes) { return std::min(nodes - 1, 2 * std::log2(nodes) + 8); }

double gather_seconds(const Cluster& cluster, const Stack& stack, const Group& g, double bytes) {
  if (g.ranks <= 1 || bytes <= 0) return 0;
  const double n = static_cast<double>(g.ranks);
  const double link = cluster.link_bandwidth * stack.constants[Constant::link];
  double seconds = bytes * (n - 1) / n / link + (n - 1) * cluster.link_latency;
  if (g.ranks > g.ranks_per_node) {
    const double nodes = std::ceil(n / static_cast<double>(g.ranks_per_node));
    double latency = 0;
    const double net =
        uplink(cluster, static_cast<int64_t>(nodes), &latency) * stack.constants[Constant::net];
    // A ring sends the whole buffer once over each uplink, which it shares with the rings of other
    // groups. If a ring has several members per node, it enters the node at one device and leaves
    // it at another, so a part of the node's ports is idle.
    const double idle =
        stack.constants[Constant::rail] * (1 - 1 / static_cast<double>(g.ranks_per_node));
    const double across =
        bytes * (nodes - 1) / nodes * static_cast<double>(g.rings_per_node) / net * (1 + idle);
    seconds = std::max(bytes * (n - 1) / n / link, across) + ring_hops(nodes) * latency +
              static_cast<double>(g.ranks_per_node - 1) * cluster.link_latency;
  }
  return seconds;
}

double all_reduce_seconds(const Cluster& cluster, const Stack& stack, const Group& g,
                          double bytes) {
  return 2 * gather_seconds(cluster, stack, g, bytes);
}

double send_seconds(const Cluster& cluster, const Stack& stack, bool same_node, double bytes,
                    int64_t streams_per_node) {
  if (same_node) {
    return bytes / (cluster.link_bandwidth * stack.constants[Constant::link]) +
           cluster.link_latency;
  }
  const double net = cluster.node_bandwidth() * stack.constants[Constant::net];
  return bytes * static_cast<double>(streams_per_node) / net + cluster.network_latency();
}

}  // namespace stretto::plan
