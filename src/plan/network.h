// Seconds of collectives: latency plus bytes, by algorithm and tier.
#pragma once

#include "plan/cluster.h"
#include "plan/stack.h"

namespace stretto::plan {

struct Group {
  int64_t ranks = 1;
  int64_t ranks_per_node = 1;  // members that share a node
  int64_t rings_per_node = 1;  // groups of the same kind that share the node's uplink
};

// Hops of a collective between nodes. Above a few nodes libraries use trees instead of rings.
double ring_hops(double nodes);

// `bytes` is the size of the whole buffer on each rank.
double all_reduce_seconds(const Cluster& cluster, const Stack& stack, const Group& group,
                          double bytes);
double gather_seconds(const Cluster& cluster, const Stack& stack, const Group& group,
                      double bytes);  // all_gather and reduce_scatter
double send_seconds(const Cluster& cluster, const Stack& stack, bool same_node, double bytes,
                    int64_t streams_per_node);

}  // namespace stretto::plan
