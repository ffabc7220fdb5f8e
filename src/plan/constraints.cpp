// Names constraints that contradict each other, before a search that would find nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "config/schema.h"
#include "plan/search.h"

namespace stretto::plan {
namespace {

bool within(int64_t value, const Key& key) {
  return static_cast<double>(value) >= key.least && static_cast<double>(value) <= key.most;
}

[[noreturn]] void refuse(const std::string& what, const std::string& fix) {
  throw Error(ExitCode::bad_config, "planning: " + what, fix);
}

}  // namespace

void check_workload(const Workload& w) {
  const ModelShape& m = w.model;
  // The planner takes what `train` takes: the limits are those of the keys.
  const auto need = [&](int64_t value, const char* name, const char* what, const char* option) {
    const Key& key = *find_key(name);
    if (within(value, key)) return;
    refuse(fmt::format("{} is {}", what, value),
           fmt::format("{} {:.0f} to {:.0f}", option, key.least, key.most));
  };
  const auto model = [&](int64_t value, const char* name) {
    need(value, name, name, "use a value from");
  };
  model(m.layers, "model.layers");
  model(m.hidden, "model.hidden");
  model(m.heads, "model.heads");
  model(m.vocab, "model.vocab");
  model(m.ffn, "model.ffn");
  if (m.head_dim == 0 && m.hidden % m.heads != 0) {
    refuse(fmt::format("model.hidden {} is not divisible by model.heads {}", m.hidden, m.heads),
           "choose heads that divide hidden");
  }
  need(w.seq_len, "seq_len", "the sequence length", "give --seq-len");
  need(w.global_batch, "global_batch", "the global batch", "give --global-batch");
}

void check_devices(const Constraints& c) {
  const Key& key = *find_key("parallel.dp");
  if (within(c.devices, key)) return;
  refuse(fmt::format("{} devices", c.devices), fmt::format("give --gpus 1 to {:.0f}", key.most));
}

Abilities abilities_for(const Stack& stack, const Workload& work) {
  Abilities can = stack.can;
  // Both add up gradients in an order that depends on the layout.
  if (stack.own_runtime && work.deterministic) can.zero_bubble = can.hybrid = false;
  return can;
}

void check_abilities(const Stack& stack, const Workload& work, const Constraints& c) {
  const Abilities able = abilities_for(stack, work);
  const auto need = [&](bool can, bool asked, const char* what, const char* option) {
    if (can || !asked) return;
    refuse(fmt::format("{} has no {}", stack.name, what), fmt::format("leave {} out", option));
  };
  need(stack.can.tensor, c.tp.value_or(1) > 1, "tensor parallelism", "--tp");
  need(stack.can.pipeline, c.pp.value_or(1) > 1, "pipeline parallelism", "--pp");
  need(stack.can.interleave, c.interleave.value_or(1) > 1, "interleaved pipeline", "--interleave");
  need(stack.can.interleave, c.schedule == PipelineSchedule::interleaved, "interleaved pipeline",
       "--schedule");
  const bool bubble = c.schedule == PipelineSchedule::zero_bubble;
  need(stack.can.zero_bubble, bubble, "zero-bubble schedule", "--schedule");
  need(able.zero_bubble, bubble, "zero-bubble schedule that is deterministic", "--schedule");
  const int64_t chunks = c.interleave.value_or(1);
  if (std::ranges::count(kChunksPerStage, chunks) == 0) {
    refuse(fmt::format("{} model chunks per stage are not searched", chunks),
           "give --interleave 1, 2 or 4");
  }
  if (c.recompute && !stack.can.checkpoints(*c.recompute)) {
    std::vector<std::string> known;
    for (Checkpointing mode : kCheckpointings) {
      if (stack.can.checkpoints(mode)) known.push_back(name_of(mode));
    }
    refuse(fmt::format("{} has no {} recomputation", stack.name, name_of(*c.recompute)),
           fmt::format("use {}", fmt::join(known, " or ")));
  }
  const std::vector<int>& zero = stack.can.zero;
  if (c.zero && std::find(zero.begin(), zero.end(), *c.zero) == zero.end()) {
    refuse(fmt::format("{} has no ZeRO stage {}", stack.name, *c.zero),
           fmt::format("use {}", fmt::join(zero, " or ")));
  }
}

void check_division(const Constraints& c) {
  const bool all = c.dp && c.tp && c.pp;
  int64_t rest = c.devices;
  bool divides = true;
  double product = 1;  // a double, because the product of user input may exceed 64 bits
  for (const std::optional<int64_t>& part : {c.dp, c.tp, c.pp}) {
    if (!part) continue;
    product *= static_cast<double>(*part);
    divides = divides && *part >= 1 && rest % *part == 0;
    if (divides) rest /= *part;
  }
  if (divides && (!all || rest == 1)) return;
  std::string asked;
  for (const auto& [value, name] :
       {std::pair{c.dp, "dp"}, std::pair{c.tp, "tp"}, std::pair{c.pp, "pp"}}) {
    if (value) asked += fmt::format("{}{} {}", asked.empty() ? "" : " x ", name, *value);
  }
  refuse(fmt::format("{} {} {}", asked, all ? "is not" : "does not divide",
                     counted(c.devices, "device")),
         !all ? "give sizes that divide --gpus"
         : product > find_key("parallel.dp")->most
             ? "leave one of them out"
             : fmt::format("give --gpus {:.0f}, or leave one of them out", product));
}

}  // namespace stretto::plan
