#include "plan/offload.h"

#include <algorithm>

#include "plan/memory.h"

namespace stretto::plan {

double activation_copies(const Cluster& cluster, const Workload& work, const Layout& layout,
                         const OffloadedStage& stage) {
  if (!work.activation_offload || cluster.host_bandwidth <= 0 || stage.layers == 0) return 0;
  const double copy = saved_layer_bytes(work, layout) / cluster.host_bandwidth;
  const auto n = static_cast<double>(stage.layers);
  // Copies out and in share one lane, so nothing comes back before all is out. On the last stage
  // the head and the first layer's backward pass need nothing from the host; two layers never leave
  // the device.
  const double meanwhile = n * stage.forward + (stage.last ? stage.head + stage.backward : 0.0);
  const double out = std::max(0.0, n * copy - meanwhile);
  const double back = stage.last ? std::max(0.0, n - 2) : n;
  return out + back * std::max(0.0, copy - stage.backward);
}

double state_copies(const Cluster& cluster, const Workload& work, double params, double update) {
  if (!work.optimizer_offload || cluster.host_bandwidth <= 0) return 0;
  const double one_way = state_bytes(work) * params / cluster.host_bandwidth;
  // Windows are copied in, updated and copied out; two of them take turns.
  return std::max(0.0, one_way - update / 2);
}

}  // namespace stretto::plan
