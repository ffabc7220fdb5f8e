// From a configuration to what one rank holds and runs.
#pragma once

#include <optional>

#include "account/flops.h"
#include "account/memory.h"
#include "config/config.h"
#include "parallel/mesh.h"

namespace stretto {

// What FLOP conventions need to know about the topology.
RunCut run_cut(const Config& config);

// The shape of the rank at `at`. Throws where the configuration has no legal one.
RankShape rank_shape(const Config& config, const Coordinates& at);

// The shape of one rank of each pipeline stage; all ranks of a stage have the same.
std::vector<RankShape> stage_shapes(const Config& config);

// What the rank that needs most (first and last pipeline stage differ from those between) takes of
// the memory of its tensors: the plan, `device_overhead`, and on a CPU `save_bytes`.
size_t largest_need(const Config& config);
// Its host memory beside that: what a GPU offloads, and the copies that saving makes. 0 on a CPU.
size_t largest_host_need(const Config& config);

// The largest micro-batch whose plan fits `bytes` on every rank; 0 if not even one sequence fits.
int64_t largest_micro_batch(const Config& config, size_t bytes);

// What a rank on a GPU needs beside its plan: the driver's own memory, and workspaces of matrix
// products and attention. 0 on the CPU. `hopper`: whether all GPUs are Hopper; without it the GPUs
// of this machine are asked.
size_t device_overhead(const Config& config, const RankShape& shape);
size_t device_overhead(const Config& config, const RankShape& shape, bool hopper);

// Host memory that saving needs beside the plan, for each rank of a machine: ranks that save copy
// their part of weights and moments. 0 without an output.
size_t save_bytes(const Config& config, const RankShape& shape);

// A rank's share of `machine` bytes, or of the `limit` that its container or job may use. A
// twentieth is left to the system.
size_t host_share(size_t machine, std::optional<int64_t> limit, int64_t ranks_here);

// Bytes that a rank may use in the memory of its tensors: config.memory_limit, else its share of
// the machine's memory or of its GPU's.
size_t memory_budget(const Config& config, int64_t ranks_here);

// Throws out_of_memory, with advice on what would fit, if some rank's plan exceeds `bytes` or what
// it offloads exceeds the machine's memory.
void require_fits(const Config& config, size_t bytes);

}  // namespace stretto
