#include "cli/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/cuda/cuda_options.h"
#include "base/units.h"
#include "cli/text_table.h"
#include "train/rank_plan.h"

namespace stretto::cli {
namespace {

constexpr auto kActivations = static_cast<size_t>(MemoryTerm::activations);

size_t shared_logits(const std::vector<TensorSpec>& plan) {
  for (const TensorSpec& spec : plan) {
    if (spec.term == MemoryTerm::logits && !spec.over.empty()) return spec.bytes();
  }
  return 0;
}

}  // namespace

std::vector<StageMemory> stage_memory(const Config& config) {
  std::vector<StageMemory> stages;
  Config sized = config;
  sized.micro_batch = std::max<int64_t>(1, config.micro_batch);  // auto counts as one sequence
  for (RankShape shape : stage_shapes(sized)) {
    StageMemory memory;
    memory.stage = std::ssize(stages);
    for (const auto& chunk : shape.chunks) memory.layers += static_cast<int64_t>(chunk.size());
    for (size_t mode = 0; mode < memory.activations.size(); ++mode) {
      shape.checkpointing = kCheckpointings[mode];
      const std::vector<TensorSpec> plan = memory_plan(shape);
      const MemoryTotals totals = memory_totals(plan);
      memory.activations[mode] = totals.by_term[kActivations];
      if (shape.checkpointing != config.activation_checkpointing) continue;
      memory.totals = totals;
      memory.host = memory_totals(host_plan(shape)).total;
      memory.overhead = device_overhead(sized, shape);
      memory.shared_logits = shared_logits(plan);
    }
    stages.push_back(memory);
  }
  return stages;
}

std::string memory_text(const Config& config, const std::vector<StageMemory>& stages) {
  const auto bytes = [](size_t n) { return format_bytes(static_cast<double>(n)); };
  std::vector<std::string> headings = {">stage", ">layers"};
  for (size_t term = 0; term < kMemoryTerms; ++term) {
    headings.push_back(std::string(">") + name_of(static_cast<MemoryTerm>(term)));
  }
  const bool offloads = std::any_of(stages.begin(), stages.end(),
                                    [](const StageMemory& stage) { return stage.host > 0; });
  headings.push_back(">total");
  if (offloads) headings.push_back(">in host memory");
  for (Checkpointing mode : kCheckpointings) {
    headings.push_back(
        fmt::format(">{}{}", mode == kCheckpointings[0] ? "act. " : "", name_of(mode)));
  }
  TextTable table(headings);
  for (const StageMemory& stage : stages) {
    std::vector<std::string> cells = {fmt::to_string(stage.stage), fmt::to_string(stage.layers)};
    for (size_t n : stage.totals.by_term) cells.push_back(bytes(n));
    cells.push_back(bytes(stage.totals.total));
    if (offloads) cells.push_back(bytes(stage.host));
    for (size_t n : stage.activations) cells.push_back(bytes(n));
    table.add(std::move(cells));
  }
  const std::string batch =
      config.micro_batch > 0 ? fmt::to_string(config.micro_batch) : "auto (counted as 1)";
  std::string text =
      fmt::format("Memory per rank: micro-batch {}, each of {} and {}, ZeRO {}\n{}", batch,
                  counted(config.parallel.tp, "tensor shard"),
                  counted(config.parallel.dp, "replica"), config.parallel.zero, table.text("  "));
  if (const size_t shared = stages.back().shared_logits; shared > 0) {  // the head's stage
    text += fmt::format("  logits of {} share memory with a layer's gradients (activations)\n",
                        bytes(shared));
  }
  if (const size_t overhead = stages.back().overhead; overhead > 0) {  // the same on every stage
    text += fmt::format(
        "  beside it the GPU's driver and libraries take {}{}\n", bytes(overhead),
        cuda_device_count() > 0 ? "" : " (with no GPU here to ask: of one older than Hopper)");
  }
  return text;
}

nlohmann::json memory_json(const std::vector<StageMemory>& stages) {
  nlohmann::json out = nlohmann::json::array();
  for (const StageMemory& stage : stages) {
    nlohmann::json row = {{"stage", stage.stage},
                          {"layers", stage.layers},
                          {"total_bytes", stage.totals.total},
                          {"host_bytes", stage.host},
                          {"device_overhead_bytes", stage.overhead},
                          {"shared_logits_bytes", stage.shared_logits}};
    for (size_t mode = 0; mode < stage.activations.size(); ++mode) {
      row["activations_by_checkpointing"][name_of(kCheckpointings[mode])] = stage.activations[mode];
    }
    for (size_t term = 0; term < kMemoryTerms; ++term) {
      row["bytes"][name_of(static_cast<MemoryTerm>(term))] = stage.totals.by_term[term];
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace stretto::cli
