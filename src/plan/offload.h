// What the link to the host adds to a step of our own runtime (docs/cuda.md, Offload). Zero where
// the workload offloads nothing, and where the device is its own host.
#pragma once

#include "plan/cluster.h"
#include "plan/workload.h"

namespace stretto::plan {

// Seconds of compute, for one stage and one micro-batch, behind which copies can hide.
struct OffloadedStage {
  int64_t layers = 0;
  double forward = 0, backward = 0;  // of one layer, with its recomputation and collectives
  double head = 0;                   // head and loss, forward and backward
  bool last = true;                  // its backward pass follows its forward pass at once
};

// Seconds per micro-batch that compute does not hide: activations are copied out after a layer's
// forward pass and back before its backward pass, and the device holds two layers of them.
double activation_copies(const Cluster& cluster, const Workload& work, const Layout& layout,
                         const OffloadedStage& stage);

// Seconds that the copies of the state of `params` parameters add to its updates, which take
// `update` seconds. The state is copied in and out at the same time, through two windows.
double state_copies(const Cluster& cluster, const Workload& work, double params, double update);

}  // namespace stretto::plan
