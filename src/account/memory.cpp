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
        Cl(C / s.tp),
        Fl(s.model.ffn / s.tp),
        Hl(s.model.heads / s.tp),
        type(s.types().compute) {}

  int64_t B, T;
  int64_t n;     // tokens of a micro-batch
  int64_t rows;  // of them on this rank, if the residual stream is cut
  int64_t C;
  int64_t Cl, Fl, Hl;  // tensor-parallel shares
  DType type;
};

TensorSpec activation(const char* label, DType type, Shape shape) {
  return {MemoryTerm::activations, label, type, shape};
}

TensorSpec over(const char* base, TensorSpec spec) {
  spec.over = base;
  return spec;
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

// Buffers that every layer uses in turn.
void append_workspace(std::vector<TensorSpec>& plan, const RankShape& s) {
  const Dims d(s);
  plan.push_back(activation("work.branch", d.type, {d.rows, d.C}));
  if (s.workspace.shared > 0) {
    plan.push_back(activation("work.cpu.shared", DType::u8, {s.workspace.shared}));
    plan.push_back(
        activation("work.cpu.worker", DType::u8, {s.workspace.workers, s.workspace.worker}));
  }
  if (s.gathers_sequence()) {
    plan.push_back(activation("work.partial", d.type, {d.n, d.C}));
    plan.push_back(activation("work.gathered", d.type, {d.n, d.C}));
  }
  if (!s.train) return;
  // Two gradient streams, because one may still be being sent to the previous stage.
  plan.push_back(activation("work.dstream.0", d.type, {d.rows, d.C}));
  const TensorSpec second = activation("work.dstream.1", d.type, {d.rows, d.C});
  plan.push_back(s.one_stage() ? over("work.dstream.0", second) : second);
  // The next micro-batch's stream may arrive while the slot that it will use is still needed.
  if (s.receives_streams()) plan.push_back(activation("work.received", d.type, {d.rows, d.C}));
  // Each is dead before the next one is written.
  plan.push_back(over("work.branch", activation("work.dnorm", d.type, {d.rows, d.C})));
  plan.push_back(over("work.branch", activation("work.datt", d.type, {d.n, d.Cl})));
  if (s.gathers_sequence()) plan.push_back(activation("work.dgathered", d.type, {d.n, d.C}));
  if (s.split_backward) return;
  // The MLP's gradient is dead before attention's is written.
  std::vector<TensorSpec> gradients = layer_gradient_specs(s);
  std::stable_sort(gradients.begin(), gradients.end(),
                   [](const auto& a, const auto& b) { return a.shape.count() > b.shape.count(); });
  append(plan, "grad.", gradients);
  plan.back().over = plan[plan.size() - 2].label;
}

// Recomputed activations, for one layer at a time. If the backward pass makes GELU's output in
// place, it is needed here only in the forward pass.
void append_recomputed(std::vector<TensorSpec>& plan, const RankShape& s) {
  std::vector<TensorSpec> specs = recomputed_specs(s);
  for (TensorSpec& spec : specs) {
    if (spec.label == "act" && s.gelu_in_place()) spec.over = "grad.dpre";
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
  const Dims d(s);
  const int64_t rows = s.loss_rows();
  const int64_t vocab = padded_vocab(s.model, s.tp) / s.tp;
  plan.push_back({MemoryTerm::logits, "loss.logits", d.type, {rows, vocab}});
  plan.push_back({MemoryTerm::logits, "loss.lse", DType::f32, {rows}});
  plan.push_back({MemoryTerm::logits, "loss.lse_parts", DType::f32, {s.tp, rows}});
  plan.push_back({MemoryTerm::logits, "loss.target", DType::f32, {rows}});
  plan.push_back({MemoryTerm::logits, "loss.scale", DType::f32, {1}});
  plan.push_back({MemoryTerm::logits, "loss.sums", DType::f64, {s.accumulation}});
}

// Logits are dead before a layer's gradients are first written, so the larger of the two shares its
// memory with the other.
void share_logits(std::vector<TensorSpec>& plan) {
  const auto find = [&](const char* label) {
    return std::find_if(plan.begin(), plan.end(),
                        [&](const TensorSpec& spec) { return spec.label == label; });
  };
  const auto logits = find("loss.logits");
  auto base = find("grad.dpre");
  if (!base->over.empty()) base = find("grad.dqkv");
  if (logits->bytes() <= base->bytes()) {
    logits->over = base->label;
  } else {
    base->over = logits->label;
    std::rotate(base, logits, logits + 1);  // a tensor must come before those that share its memory
  }
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

std::vector<TensorSpec> saved_specs(const RankShape& s) {
  const Dims d(s);
  std::vector<TensorSpec> specs;
  specs.push_back(activation("stream", d.type, {d.rows, d.C}));  // the residual stream coming in
  if (s.checkpointing == Checkpointing::full) return specs;
  specs.push_back(activation("mean1", DType::f32, {d.rows}));
  specs.push_back(activation("rstd1", DType::f32, {d.rows}));
  specs.push_back(activation("qkv", d.type, {d.B, d.T, 3 * d.Cl}));
  specs.push_back(activation("att", d.type, {d.B, d.T, d.Cl}));
  specs.push_back(activation("lse", DType::f32, {d.B, d.Hl, d.T}));
  specs.push_back(activation("stream2", d.type, {d.rows, d.C}));  // after the attention branch
  specs.push_back(activation("mean2", DType::f32, {d.rows}));
  specs.push_back(activation("rstd2", DType::f32, {d.rows}));
  specs.push_back(activation("pre", d.type, {d.n, d.Fl}));
  if (s.checkpointing == Checkpointing::selective) return specs;
  specs.push_back(activation("norm1", d.type, {d.rows, d.C}));
  specs.push_back(activation("norm2", d.type, {d.rows, d.C}));
  if (s.checkpointing == Checkpointing::gelu) return specs;
  specs.push_back(activation("act", d.type, {d.n, d.Fl}));
  return specs;
}

std::vector<TensorSpec> recomputed_specs(const RankShape& s) {
  RankShape none = s;
  none.checkpointing = Checkpointing::none;
  std::vector<TensorSpec> specs;
  const auto saved = saved_specs(s);
  for (TensorSpec& spec : saved_specs(none)) {
    const bool kept = std::any_of(saved.begin(), saved.end(),
                                  [&](const TensorSpec& k) { return k.label == spec.label; });
    if (!kept) specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<TensorSpec> layer_gradient_specs(const RankShape& s) {
  const Dims d(s);
  std::vector<TensorSpec> specs = {activation("dpre", d.type, {d.n, d.Fl}),
                                   activation("dqkv", d.type, {d.B, d.T, 3 * d.Cl})};
  if (s.split_backward) {  // the stream's gradient is passed on, so branches need copies
    specs.push_back(activation("dmlp", d.type, {d.rows, d.C}));
    specs.push_back(activation("dattn", d.type, {d.rows, d.C}));
  }
  return specs;
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
  if (!s.last_stage) return plan;
  append_loss(plan, s);
  if (s.train && !s.split_backward) share_logits(plan);
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

namespace {

// What the backward pass of attention on a GPU needs beside its operands. cuDNN's and ours for
// Hopper keep one or two values per row of scores, and dq in f32; cuDNN's repeatable one instead of
// dq the gradients of all scores. Our own for ALiBi, f32 and other head sizes keeps rows only.
size_t attention_scratch(const RankShape& shape, bool repeatable, bool hopper) {
  const int64_t tokens = shape.tokens(), hidden = shape.model.hidden / shape.tp;
  const int64_t heads = shape.model.heads / shape.tp, head = hidden / heads;
  int64_t words = 0;
  if (shape.model.position_kind == Positions::alibi || head > 128 || head % 8 != 0 ||
      shape.precision == Precision::fp32) {
    words = tokens * heads * 2;
  } else if (hopper && (head == 64 || head == 128) && shape.seq_len % 128 == 0 &&
             shape.precision != Precision::amp_fp16) {
    // Beside dq: two values per row of scores, sums of 64 rows, and a counter per 64 rows of 64
    // columns (backend/cuda/attention_dq.cu).
    words =
        tokens * hidden + 2 * tokens * heads + tokens / 64 * hidden + tokens / 64 * hidden / 64 + 1;
  } else {
    // The gradients of scores have 16 bits, whatever the head size, in blocks of 64 rows and 128
    // columns (cudnn-frontend, scaled_dot_product_flash_attention.h).
    const int64_t scores = round_up(shape.seq_len, 64) * round_up(shape.seq_len, 128);
    words =
        tokens * heads + (repeatable ? shape.micro_batch * heads * scores / 2 : tokens * hidden);
  }
  return static_cast<size_t>(words) * sizeof(float);
}

}  // namespace

size_t gpu_overhead(const RankShape& shape, bool repeatable, bool hopper) {
  constexpr size_t kMiB = size_t{1} << 20;
  constexpr size_t kDriver = 550 * kMiB;   // context and loaded kernels, measured on an H200
  constexpr size_t kProducts = 64 * kMiB;  // cuBLASLt
  constexpr size_t kPartialSums = 64 * kMiB;
  const auto tokens = static_cast<size_t>(shape.tokens());
  const auto hidden = static_cast<size_t>(shape.model.hidden / shape.tp);
  const auto ffn = static_cast<size_t>(shape.model.ffn / shape.tp);
  const size_t attention = shape.train ? attention_scratch(shape, repeatable, hopper) : 0;
  size_t scratch = std::max(kPartialSums, attention), gradients = 0;
  if (shape.precision == Precision::amp_fp8) {
    // Tensor parallelism cuts one side of each product; the other stays whole.
    const auto whole = static_cast<size_t>(shape.model.hidden);
    const size_t widest = std::max({ffn, 3 * hidden, whole});
    scratch = std::max(scratch, tokens * widest + whole * ffn);  // input and weight, rounded
    if (shape.train) gradients = 2 * tokens * widest;            // as they are and transposed
  }
  return kDriver + kProducts + scratch + gradients;
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
