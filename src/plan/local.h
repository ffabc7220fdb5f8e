// This machine as a cluster: what `stretto doctor` measured, one rank per share of the cores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/cluster.h"

namespace stretto::plan {

// The part of `stretto doctor --json` (and of every run record) that the cost model needs.
struct MachineFigures {
  int64_t cores = 0;        // usable
  double gemm = 0;          // FLOP/s, fp32 matrix product on all of them
  double bf16_gemm = 0;     // the same in bf16; that in fp32 where there are no units for it
  double fma = 0;           // FLOP/s of fp32 multiply-adds on all of them; 0: not measured
  double fma_one_core = 0;  // the same on one core
  double bandwidth = 0;     // bytes/s, triad on all of them
  double memory = 0;        // bytes
  double call_seconds = 0;  // two ranks, one collective of a few bytes; 0: not measured
  double message_rate = 0;  // bytes/s of a long one (ring volume); 0: not measured
  std::string gpu;          // name of the first one; empty: none
};

// Empty if the text holds no measured rates (`doctor --quick`) or is something else.
std::optional<MachineFigures> read_machine(const std::string& doctor_json);

// Each of `ranks` ranks, with `threads` threads, is a device. If there are more ranks than the
// cores can serve, they take turns. All share the memory.
Cluster local_cluster(const MachineFigures& machine, int64_t threads, int64_t ranks);

}  // namespace stretto::plan
