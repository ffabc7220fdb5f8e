#include "cli/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "account/stages.h"
#include "base/units.h"
#include "cli/text_table.h"
#include "config/schema.h"

namespace stretto::cli {
namespace {

constexpr Checkpointing kModes[] = {Checkpointing::none, Checkpointing::selective,
                                    Checkpointing::full};
constexpr auto kActivations = static_cast<size_t>(MemoryTerm::activations);

std::vector<int64_t> in_flight(const Config& config, int64_t stage, int64_t rounds) {
  const ParallelConfig& p = config.parallel;
  if (p.interleave > 1) return in_flight_interleaved(p.pp, stage, p.interleave, rounds);
  if (p.schedule == PipelineSchedule::gpipe) return in_flight_gpipe(rounds);
  return in_flight_1f1b(p.pp, stage, rounds);
}

RankShape stage_shape(const Config& config, int64_t stage) {
  const ParallelConfig& p = config.parallel;
  RankShape shape;
  shape.model = config.model;
  shape.micro_batch = std::max<int64_t>(1, config.micro_batch);  // auto counts as one sequence
  shape.seq_len = config.seq_len > 0 ? config.seq_len : config.model.positions;
  shape.tp = p.tp;
  shape.dp = p.zero_group > 0 ? p.zero_group : p.dp;
  shape.zero = p.zero;
  shape.sequence_parallel = p.sequence_parallel;
  shape.deterministic = config.deterministic;
  shape.precision = config.precision;
  shape.first_stage = stage == 0;
  shape.last_stage = stage == p.pp - 1;
  shape.split_backward = p.schedule == PipelineSchedule::zero_bubble;
  const int64_t step = p.dp * shape.micro_batch;
  shape.accumulation = (config.global_batch + step - 1) / step;
  auto partition = partition_list(p.partition);
  if (partition.empty()) {
    partition = even_partition(config.model.layers, p.pp * p.interleave,
                               p.partition == "transformer+embedding");
  }
  shape.chunks = stage_chunks(partition, p.pp, stage);
  shape.in_flight = in_flight(config, stage, shape.accumulation);
  return shape;
}

}  // namespace

std::vector<StageMemory> stage_memory(const Config& config) {
  std::vector<StageMemory> stages;
  for (int64_t stage = 0; stage < config.parallel.pp; ++stage) {
    RankShape shape = stage_shape(config, stage);
    StageMemory memory;
    memory.stage = stage;
    for (const auto& chunk : shape.chunks) memory.layers += static_cast<int64_t>(chunk.size());
    for (Checkpointing mode : kModes) {
      shape.checkpointing = mode;
      const MemoryTotals totals = memory_totals(memory_plan(shape));
      memory.activations[static_cast<size_t>(mode)] = totals.by_term[kActivations];
      if (mode == config.activation_checkpointing) memory.totals = totals;
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
  headings.insert(headings.end(), {">total", ">act. none", ">selective", ">full"});
  TextTable table(headings);
  for (const StageMemory& stage : stages) {
    std::vector<std::string> cells = {fmt::to_string(stage.stage), fmt::to_string(stage.layers)};
    for (size_t n : stage.totals.by_term) cells.push_back(bytes(n));
    cells.push_back(bytes(stage.totals.total));
    for (size_t n : stage.activations) cells.push_back(bytes(n));
    table.add(std::move(cells));
  }
  const std::string batch =
      config.micro_batch > 0 ? fmt::to_string(config.micro_batch) : "auto (counted as 1)";
  return fmt::format(
      "Memory per rank: micro-batch {}, each of {} tensor shards and {} replicas, ZeRO {}\n{}",
      batch, config.parallel.tp, config.parallel.dp, config.parallel.zero, table.text("  "));
}

nlohmann::json memory_json(const std::vector<StageMemory>& stages) {
  nlohmann::json out = nlohmann::json::array();
  for (const StageMemory& stage : stages) {
    nlohmann::json row = {{"stage", stage.stage},
                          {"layers", stage.layers},
                          {"total_bytes", stage.totals.total},
                          {"activations_by_checkpointing",
                           {{"none", stage.activations[0]},
                            {"selective", stage.activations[1]},
                            {"full", stage.activations[2]}}}};
    for (size_t term = 0; term < kMemoryTerms; ++term) {
      row["bytes"][name_of(static_cast<MemoryTerm>(term))] = stage.totals.by_term[term];
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace stretto::cli
