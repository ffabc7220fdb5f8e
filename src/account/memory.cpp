#include "account/memory.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"
#include "tensor/arena.h"

namespace stretto {
namespace {

struct Dims {
  explicit Dims(const RankShape& s)
      : B(s.micro_batch),
        T(s.seq_len),
        n(s.tokens()),
        rows(s.stream_rows()),
        C(s.model.hidden),
        tp(s.tp),
        type(s.types().compute) {}

  Shape shape(Extent extent, int64_t width) const {
    switch (extent) {
      case Extent::stream:
        return {rows, width};
      case Extent::statistic:
        return {rows};
      case Extent::tokens:
        return {n, width / tp};
      case Extent::sequence:
        return {B, T, width / tp};
      case Extent::heads:
        return {B, width / tp, T};
    }
    return {};
  }
  DType type_of(Extent extent) const {
    return extent == Extent::statistic || extent == Extent::heads ? DType::f32 : type;
  }
  TensorSpec tensor(const char* label, Extent extent, int64_t width) const {
    return {MemoryTerm::activations, label, type_of(extent), shape(extent, width)};
  }

  int64_t B, T;
  int64_t n;     // tokens of a micro-batch
  int64_t rows;  // of them on this rank, if the residual stream is cut
  int64_t C, tp;
  DType type;
};

TensorSpec activation(const char* label, DType type, Shape shape) {
  return {MemoryTerm::activations, label, type, shape};
}

// Appends tensors of which each is dead before another is written: all use the memory of the
// largest, the first of the largest ones, which comes first in the plan.
void append_shared(std::vector<TensorSpec>& plan, std::vector<TensorSpec> specs) {
  const auto bytes = [](const TensorSpec& spec) {  // not rounded
    return static_cast<size_t>(spec.shape.count()) * dtype_size(spec.type);
  };
  const auto smaller = [&](const TensorSpec& a, const TensorSpec& b) {
    return bytes(a) < bytes(b);
  };
  const auto largest = std::max_element(specs.begin(), specs.end(), smaller);
  std::rotate(specs.begin(), largest, largest + 1);
  for (TensorSpec& spec : specs) {
    if (&spec != &specs.front()) spec.over = specs.front().label;
    plan.push_back(spec);
  }
}

void append(std::vector<TensorSpec>& plan, const std::string& prefix,
            const std::vector<TensorSpec>& specs) {
  for (TensorSpec spec : specs) {
    spec.label = prefix + spec.label;
    plan.push_back(std::move(spec));
  }
}

// "master", "m" and "v" of `count` elements.
void append_optimizer(std::vector<TensorSpec>& plan, const RankShape& s, const std::string& prefix,
                      int64_t count) {
  const PrecisionTypes types = s.types();
  auto add = [&](const char* label, DType type) {
    plan.push_back({MemoryTerm::optimizer, prefix + label, type, {count}});
  };
  if (types.master) add("master", *types.master);
  add("m", types.moment);
  add("v", types.moment);
}

int64_t owned_elements(const RankShape& s, const FlatLayout& layout) {
  return s.zero >= 1 ? layout.shard_total() : layout.total;
}

// Weights, gradients and optimizer state.
void append_states(std::vector<TensorSpec>& plan, const RankShape& s) {
  const FlatLayout layout = flat_layout(s);
  const PrecisionTypes types = s.types();
  int64_t layer_unit = 0;  // the largest layer
  int64_t largest_unit = 0;
  for (const FlatUnit& unit : layout.units) {
    if (unit.layer >= 0) layer_unit = std::max(layer_unit, unit.count());
    largest_unit = std::max(largest_unit, unit.count());
  }
  auto add = [&](MemoryTerm term, const std::string& label, DType type, int64_t count) {
    plan.push_back({term, label, type, {count}});
  };
  auto add_unit_buffers = [&](MemoryTerm term, const std::string& what, DType type) {
    for (const FlatUnit& unit : layout.units) {
      if (unit.layer < 0) add(term, what + unit.name, type, unit.count());
    }
    for (int slot = 0; slot < 2 && layer_unit > 0; ++slot) {  // one in use, one being fetched
      add(term, fmt::format("{}layer.{}", what, slot), type, layer_unit);
    }
  };

  if (s.zero == 3) {
    add(MemoryTerm::weights, "weights", types.compute, layout.shard_total());
    add_unit_buffers(MemoryTerm::weights, "gathered.", types.compute);
  } else {
    add(MemoryTerm::weights, "weights", types.compute, layout.total);
  }
  if (!s.train) return;

  const int64_t owned = owned_elements(s, layout);
  if (s.optimizer_offload) {
    for (const char* prefix : {"window.0.", "window.1."}) {
      append_optimizer(plan, s, prefix, offload_window(owned));
    }
  } else {
    append_optimizer(plan, s, "", owned);
  }
  add(MemoryTerm::optimizer, "stats.pieces", DType::f64, 3 * stat_piece_count(layout));
  add(MemoryTerm::optimizer, "stats.sum", DType::f64, 3);
  add(MemoryTerm::optimizer, "stats.control", DType::f32, 2);
  if (s.reduces_each_micro_batch()) {
    add(MemoryTerm::gradients, "grads", types.gradient, s.zero >= 2 ? owned : layout.total);
    add_unit_buffers(MemoryTerm::gradients, "unit_grads.", types.gradient);
  } else {
    add(MemoryTerm::gradients, "grads", types.gradient, layout.total);
  }
  if (!s.rounds_gradients()) return;
  for (int slot = 0; slot < 2; ++slot) {
    add(MemoryTerm::communication, fmt::format("sent_grads.{}", slot), s.reduce_type, largest_unit);
  }
  if (s.zero >= 2) {  // a sum in the gradients' own type, to be added to earlier ones
    add(MemoryTerm::communication, "sent_grads.sum", types.gradient, largest_unit / s.dp);
  }
}

// The logits of one chunk of rows, and the same for the backward pass: their gradients.
TensorSpec logits_spec(const RankShape& s) {
  const int64_t vocab = padded_vocab(s.model, s.tp) / s.tp;
  return {MemoryTerm::logits, "loss.logits", s.types().compute, {s.loss_rows(), vocab}};
}

// Logits are dead before a layer's gradients are first written.
bool logits_share(const RankShape& s) { return s.last_stage && s.train && !s.split_backward; }

// Buffers that every layer uses in turn.
void append_workspace(std::vector<TensorSpec>& plan, const RankShape& s) {
  const Dims d(s);
  const auto stream = [&](const char* label) { return d.tensor(label, Extent::stream, d.C); };
  const auto whole = [&](const char* label) { return activation(label, d.type, {d.n, d.C}); };
  std::vector<TensorSpec> branch = {stream("work.branch")};
  if (s.train) {
    branch.push_back(stream("work.dnorm"));
    branch.push_back(d.tensor("work.datt", Extent::tokens, s.model.q_width()));
  }
  append_shared(plan, branch);
  if (s.workspace.shared > 0) {
    plan.push_back(activation("work.cpu.shared", DType::u8, {s.workspace.shared}));
    plan.push_back(
        activation("work.cpu.worker", DType::u8, {s.workspace.workers, s.workspace.worker}));
  }
  if (s.gathers_sequence()) {
    plan.push_back(whole("work.partial"));
    plan.push_back(whole("work.gathered"));
  }
  if (!s.train) return;
  // Two gradient streams, because one may still be being sent to the previous stage.
  const std::vector<TensorSpec> gradients = {stream("work.dstream.0"), stream("work.dstream.1")};
  if (s.one_stage()) {
    append_shared(plan, gradients);
  } else {
    append(plan, "", gradients);
  }
  // The next micro-batch's stream may arrive while the slot that it will use is still needed.
  if (s.receives_streams()) plan.push_back(stream("work.received"));
  if (s.gathers_sequence()) plan.push_back(whole("work.dgathered"));
  if (s.split_backward) return;
  // The MLP's gradient is dead before attention's is written.
  std::vector<TensorSpec> inner;
  append(inner, "grad.", layer_gradient_specs(s));
  if (logits_share(s)) inner.push_back(logits_spec(s));
  append_shared(plan, inner);
}

// Recomputed activations, for one layer at a time. If the backward pass makes GELU's output in
// place, it is needed here only in the forward pass.
void append_recomputed(std::vector<TensorSpec>& plan, const RankShape& s) {
  std::vector<TensorSpec> specs = recomputed_specs(s);
  for (TensorSpec& spec : specs) {
    if (spec.label == name_of(Saved::act) && s.gelu_in_place()) spec.over = "grad.dpre";
  }
  append(plan, "again.", specs);
}

// What follows the last chunk, kept for each micro-batch in flight.
std::vector<TensorSpec> head_specs(const RankShape& s) {
  const Dims d(s);
  return {activation("stream", d.type, {d.rows, d.C}), activation("norm", d.type, {d.rows, d.C}),
          activation("mean", DType::f32, {d.rows}), activation("rstd", DType::f32, {d.rows})};
}

void append_loss(std::vector<TensorSpec>& plan, const RankShape& s) {
  const int64_t rows = s.loss_rows();
  if (!logits_share(s)) plan.push_back(logits_spec(s));
  plan.push_back({MemoryTerm::logits, "loss.lse", DType::f32, {rows}});
  plan.push_back({MemoryTerm::logits, "loss.lse_parts", DType::f32, {s.tp, rows}});
  plan.push_back({MemoryTerm::logits, "loss.target", DType::f32, {rows}});
  plan.push_back({MemoryTerm::logits, "loss.scale", DType::f32, {1}});
  plan.push_back({MemoryTerm::logits, "loss.sums", DType::f64, {s.accumulation}});
}

}  // namespace

const char* name_of(MemoryTerm term) {
  constexpr const char* kNames[kMemoryTerms] = {
      "weights", "gradients", "optimizer", "activations", "logits", "communication", "data"};
  return kNames[static_cast<int>(term)];
}

size_t TensorSpec::bytes() const {
  return arena_round(static_cast<size_t>(shape.count()) * dtype_size(type));
}

int64_t RankShape::loss_rows() const {
  const auto row_bytes =
      static_cast<int64_t>(dtype_size(types().compute)) * (padded_vocab(model, tp) / tp);
  const int64_t most = std::max<int64_t>(1, loss_chunk_bytes / std::max<int64_t>(1, row_bytes));
  // Chunks of equal size, consisting of whole kernel tiles if there are enough rows.
  const int64_t parts = ceil_div(tokens(), most);
  const int64_t rows = ceil_div(tokens(), parts);
  const int64_t tile = rows >= 2048 ? 256 : rows >= 64 ? 64 : 1;
  return std::min(tokens(), round_up(rows, tile));
}

Holdings RankShape::holdings() const {
  Holdings h;
  h.embedding = first_stage;
  h.head = last_stage;
  for (const auto& chunk : chunks) h.layers.insert(h.layers.end(), chunk.begin(), chunk.end());
  std::sort(h.layers.begin(), h.layers.end());
  return h;
}

FlatLayout flat_layout(const RankShape& shape) {
  return flat_layout(shape.model, shape.holdings(), shape.tp, shape.dp);
}

namespace {

// The tensors of a layer that `wanted` names.
template <typename Spec, typename Wanted>
std::vector<TensorSpec> tensors(const RankShape& s, const std::vector<Spec>& specs,
                                Wanted&& wanted) {
  const Dims d(s);
  std::vector<TensorSpec> out;
  for (const Spec& spec : specs) {
    if (wanted(spec)) out.push_back(d.tensor(name_of(spec.slot), spec.extent, spec.width));
  }
  return out;
}

}  // namespace

std::vector<TensorSpec> saved_specs(const RankShape& s) {
  return tensors(s, layer_table(s.model, 0).saved,
                 [&](const SavedSpec& spec) { return spec.kept(s.checkpointing); });
}

std::vector<TensorSpec> recomputed_specs(const RankShape& s) {
  return tensors(s, layer_table(s.model, 0).saved,
                 [&](const SavedSpec& spec) { return !spec.kept(s.checkpointing); });
}

std::vector<TensorSpec> layer_gradient_specs(const RankShape& s) {
  return tensors(s, layer_table(s.model, 0).inner,
                 [&](const InnerSpec& spec) { return s.split_backward || !spec.split_only; });
}

std::vector<TensorSpec> memory_plan(const RankShape& s) {
  const Dims d(s);
  std::vector<TensorSpec> plan;
  append_states(plan, s);
  for (size_t c = 0; c < s.chunks.size(); ++c) {
    const int64_t slots = s.train ? s.in_flight[c] : 1;
    const int64_t layers = s.train ? static_cast<int64_t>(s.chunks[c].size()) : 1;
    for (int64_t slot = 0; slot < slots; ++slot) {
      plan.push_back(
          {MemoryTerm::data, fmt::format("tokens.{}.{}", c, slot), DType::i32, {d.B, d.T}});
      plan.push_back(
          {MemoryTerm::data, fmt::format("targets.{}.{}", c, slot), DType::i32, {d.B, d.T}});
      if (s.last_stage && c + 1 == s.chunks.size()) {
        append(plan, fmt::format("head.{}.", slot), head_specs(s));
      } else {
        append(plan, fmt::format("output.{}.{}", c, slot), {activation("", d.type, {d.rows, d.C})});
      }
      for (int64_t l = 0; l < layers; ++l) {
        if (!s.offloads()) {
          append(plan, fmt::format("act.{}.{}.{}.", c, slot, l), saved_specs(s));
        }
        if (s.split_backward) {
          append(plan, fmt::format("grad.{}.{}.{}.", c, slot, l), layer_gradient_specs(s));
        }
      }
    }
  }
  for (int64_t set = 0; set < kOffloadSets && s.offloads(); ++set) {
    append(plan, fmt::format("act.set.{}.", set), saved_specs(s));
  }
  append_workspace(plan, s);
  append_recomputed(plan, s);
  if (s.last_stage) append_loss(plan, s);
  return plan;
}

int64_t offload_window(int64_t owned) {
  constexpr int64_t kMost = 4 << 20;
  return std::min<int64_t>(kMost, (owned / 4 + 256) / 256 * 256);
}

std::vector<TensorSpec> host_plan(const RankShape& s) {
  std::vector<TensorSpec> plan;
  if (!s.train) return plan;
  if (s.optimizer_offload) append_optimizer(plan, s, "", owned_elements(s, flat_layout(s)));
  if (!s.activation_offload) return plan;
  const auto bytes = static_cast<int64_t>(memory_totals(saved_specs(s)).total);
  for (size_t c = 0; c < s.chunks.size(); ++c) {
    for (int64_t slot = 0; slot < s.in_flight[c]; ++slot) {
      for (size_t l = 0; l < s.chunks[c].size(); ++l) {
        plan.push_back(
            {MemoryTerm::activations, fmt::format("act.{}.{}.{}", c, slot, l), DType::u8, {bytes}});
      }
    }
  }
  return plan;
}

MemoryTotals memory_totals(const std::vector<TensorSpec>& plan) {
  MemoryTotals totals;
  for (const TensorSpec& spec : plan) {
    if (!spec.over.empty()) continue;
    totals.by_term[static_cast<int>(spec.term)] += spec.bytes();
    totals.total += spec.bytes();
  }
  return totals;
}

}  // namespace stretto
