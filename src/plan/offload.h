// What the link to the host adds to a step of our own runtime (docs/cuda.md, Offload). Zero where
// the workload offloads nothing, and where the device is its own host.
#pragma once

#include "plan/cluster.h"
#include "plan/workload.h"

namespace stretto::plan {

// One stage and one micro-batch, seconds of the compute that copies can hide behind.
struct OffloadedStage {
  int64_t layers = 0;
  double forward = 0, backward = 0;  // of one layer, with its recomputation and collectives
  double head = 0;                   // head and loss, forward and backward
  bool last = true;                  // the backward pass follows at once
};

// Layers' activations go out after the forward pass and come back before the backward pass, two
// layers' worth on the device at a time: what compute does not hide, per micro-batch.
double activation_copies(const Cluster& cluster, const Workload& work, const Layout& layout,
                         const OffloadedStage& stage);

// The state of `params` parameters comes in and goes out, both at once, through two windows of
// which one is updated; `update`: seconds of the updates themselves. What is added to them.
double state_copies(const Cluster& cluster, const Workload& work, double params, double update);

}  // namespace stretto::plan
