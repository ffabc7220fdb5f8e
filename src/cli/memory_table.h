// Memory of a configuration, by term, stage by stage.
#pragma once

#include <array>
#include <iterator>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "account/memory.h"
#include "config/config.h"

namespace stretto::cli {

struct StageMemory {
  int64_t stage = 0;
  int64_t layers = 0;
  MemoryTotals totals;  // under the configuration's checkpointing
  std::array<size_t, std::size(kCheckpointings)> activations{};  // under each mode, in that order
  size_t host = 0;                                               // offloaded to host memory
  size_t overhead = 0;       // of a GPU's driver and libraries, beside the plan
  size_t shared_logits = 0;  // in the memory of a layer's gradients, so not counted as logits
};

// One entry per pipeline stage; the tensor shards and replicas of a stage all hold the same.
std::vector<StageMemory> stage_memory(const Config& config);

std::string memory_text(const Config& config, const std::vector<StageMemory>& stages, size_t width);
nlohmann::json memory_json(const std::vector<StageMemory>& stages);

}  // namespace stretto::cli
