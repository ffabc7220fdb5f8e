#include "cli/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/cuda/cuda_options.h"
#include "base/text_table.h"
#include "base/units.h"
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

std::string memory_text(const Config& config, const std::vector<StageMemory>& stages,
                        size_t width) {
  const auto bytes = [](size_t n) { return format_bytes(static_cast<double>(n)); };
  std::vector<std::string> headings = {"stage"};
  for (const StageMemory& stage : stages) headings.push_back(fmt::format(">{}", stage.stage));
  TextTable table(headings);
  // `cell`: what the row says of a stage.
  const auto add = [&](const std::string& row, const auto& cell) {
    std::vector<std::string> cells = {row};
    for (const StageMemory& stage : stages) cells.push_back(cell(stage));
    table.add(std::move(cells));
  };
  add("layers", [](const StageMemory& s) { return fmt::to_string(s.layers); });
  for (size_t term = 0; term < kMemoryTerms; ++term) {
    add(name_of(static_cast<MemoryTerm>(term)),
        [&](const StageMemory& s) { return bytes(s.totals.by_term[term]); });
  }
  add("total", [&](const StageMemory& s) { return bytes(s.totals.total); });
  const bool offloads = std::any_of(stages.begin(), stages.end(),
                                    [](const StageMemory& stage) { return stage.host > 0; });
  if (offloads) add("in host memory", [&](const StageMemory& s) { return bytes(s.host); });
  for (size_t mode = 0; mode < std::size(kCheckpointings); ++mode) {
    add(fmt::format("activations with {}", name_of(kCheckpointings[mode])),
        [&](const StageMemory& s) { return bytes(s.activations[mode]); });
  }
  const std::string batch =
      config.micro_batch > 0 ? fmt::to_string(config.micro_batch) : "auto (counted as 1)";
  std::string text = fmt::format("Memory per rank: micro-batch {}, each of {} and {}, ZeRO {}\n{}",
                                 batch, counted(config.parallel.tp, "tensor shard"),
                                 counted(config.parallel.dp, "replica"), config.parallel.zero,
                                 table.text(width, "  "));
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
