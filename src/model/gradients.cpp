#include "model/gradients.h"

namespace stretto {

Gradients::Gradients(Backend& backend, const RankShape& shape, const FlatLayout& layout,
                     RankMemory& memory, Comm& dp, Comm& tp, Comm* replica)
    : backend_(backend),
      shape_(shape),
      layout_(layout),
      dp_(dp),
      tp_(tp),
      replica_(replica),
      flat_(memory.at("grads")),
      state_(layout.units.size()) {
  size_t layers = 0;
  if (shape.reduces_each_micro_batch()) {
    for (int i = 0; i < 2 && !shape.holdings().layers.empty(); ++i) {
      buffers_.push_back(memory.at(fmt::format("unit_grads.layer.{}", i)));
    }
  }
  for (const FlatUnit& unit : layout.units) {
    if (!shape.reduces_each_micro_batch()) {
      buffer_of_.push_back(buffers_.size());
      buffers_.push_back(flat_.slice(unit.begin, unit.end));
    } else if (unit.layer >= 0) {
      buffer_of_.push_back(layers++ % 2);
    } else {
      buffer_of_.push_back(buffers_.size());
      buffers_.push_back(memory.at("unit_grads." + unit.name));
    }
  }
  pending_.resize(buffers_.size());
  for (size_t u = 0; u < layout.units.size(); ++u) {
    const FlatUnit& unit = layout.units[u];
    base_.push_back(buffers_[buffer_of_[u]].slice(0, unit.count()));
    layers_.push_back(unit.layer >= 0 ? layer_in(unit, base_[u]) : LayerGrads{});
  }
  if (!shape.rounds_gradients()) return;
  sent_.resize(2);
  for (size_t i = 0; i < sent_.size(); ++i) {
    sent_[i].buffer = memory.at(fmt::format("sent_grads.{}", i));
  }
  if (shape.zero >= 2) sum_ = memory.at("sent_grads.sum");
}

Tensor Gradients::half_of(size_t u, int half, Tensor of_unit) const {
  const FlatUnit& unit = layout_.units[u];
  const int64_t cut = unit.replicated - unit.begin;
  return half == 0 ? of_unit.slice(0, cut) : of_unit.slice(cut, unit.count());
}

void Gradients::begin_step(int64_t micro_batches) {
  micro_batches_ = micro_batches;
  for (UnitState& state : state_) state = {};
  if (shape_.reduces_each_micro_batch()) backend_.fill_zero(flat_);
}

Tensor Gradients::open(size_t u) {
  if (!state_[u].open) {
    wait(buffer_of_[u]);
    zero_small(u, base_[u]);
    state_[u].open = true;
  }
  return base_[u];
}

// Clears what is only ever accumulated: vectors, the position table, and the token table unless a
// head overwrites it first. Padding is zero from the start, and all layers have it in one place.
void Gradients::zero_small(size_t u, Tensor base) {
  const FlatUnit& unit = layout_.units[u];
  const bool head_writes = shape_.last_stage && shape_.model.tied_embedding;
  int64_t from = 0, to = 0;  // adjoining parameters are cleared together
  for (const FlatParameter& p : unit.parameters) {
    const bool accumulates =
        p.spec.vector() || unit.name == "wpe" || (unit.name == "wte" && !head_writes);
    if (!accumulates) continue;
    const int64_t begin = p.offset - unit.begin;
    if (begin != to) {
      if (to > from) backend_.fill_zero(base.slice(from, to));
      from = begin;
    }
    to = begin + p.count;
  }
  if (to > from) backend_.fill_zero(base.slice(from, to));
}

const LayerGrads& Gradients::layer(size_t unit) {
  open(unit);
  return layers_[unit];
}

void Gradients::wait(size_t buffer) {
  for (RequestPtr& request : pending_[buffer]) {
    if (request) request->wait();
  }
  pending_[buffer].clear();
}

Grad Gradients::matrix_mode(size_t unit) {
  const Grad mode = state_[unit].written ? Grad::accumulate : Grad::overwrite;
  state_[unit].written = true;
  return mode;
}

void Gradients::close(size_t unit) {
  open(unit);
  state_[unit].closed += 1;
  if (shape_.reduces_each_micro_batch()) {
    reduce(unit);
    state_[unit].open = false;
    state_[unit].written = false;
  } else if (state_[unit].closed == micro_batches_) {
    reduce(unit);
  }
}

void Gradients::reduce(size_t u) {
  auto& pending = pending_[buffer_of_[u]];
  const Tensor halves[2] = {half_of(u, 0, base_[u]), half_of(u, 1, base_[u])};
  // With sequence parallelism each tensor-parallel rank has only seen its own rows, so the
  // gradients of replicated parameters are summed first.
  if (shape_.gathers_sequence() && halves[1].count() > 0) tp_.all_reduce(halves[1]);
  if (!sent_.empty()) return send_rounded(u);
  for (int half = 0; half < 2; ++half) {
    if (halves[half].count() == 0) continue;
    if (shape_.reduces_each_micro_batch()) {
      pending.push_back(
          dp_.start_reduce_scatter(owned_part(u, half), halves[half], Accumulate::yes));
    } else if (shape_.zero == 0) {
      pending.push_back(dp_.start_all_reduce(halves[half]));
    } else {  // the owned part lies inside the input
      pending.push_back(dp_.start_reduce_scatter(owned_part(u, half), halves[half]));
    }
  }
}

// On return the unit's own buffer may be written again.
void Gradients::send_rounded(size_t u) {
  Sent& sent = sent_[next_sent_];
  next_sent_ = 1 - next_sent_;
  deliver(sent);
  sent.unit = u;
  const Tensor copy = sent.buffer.slice(0, layout_.units[u].count());
  backend_.convert(copy, base_[u]);
  for (int half = 0; half < 2; ++half) {
    const Tensor whole = half_of(u, half, copy);
    if (whole.count() == 0) continue;
    const int64_t part = whole.count() / layout_.dp, begin = part * dp_.rank();
    sent.pending[half] = shape_.zero == 0
                             ? dp_.start_all_reduce(whole)
                             : dp_.start_reduce_scatter(whole.slice(begin, begin + part), whole);
  }
}

void Gradients::deliver(Sent& sent) {
  const size_t u = sent.unit;
  for (int half = 0; half < 2; ++half) {
    if (!sent.pending[half]) continue;
    sent.pending[half]->wait();
    sent.pending[half].reset();
    const Tensor whole = half_of(u, half, sent.buffer), target = owned_part(u, half);
    const int64_t begin = shape_.zero == 0 ? 0 : target.count() * dp_.rank();
    const Tensor result = whole.slice(begin, begin + target.count());
    if (shape_.zero < 2) {
      backend_.convert(target, result);
    } else {
      const Tensor sum = sum_.slice(0, target.count());
      backend_.convert(sum, result);
      backend_.add(target, target, sum);
    }
  }
}

void Gradients::sum_over_replicas(Tensor part) {
  if (part.count() == 0) return;
  if (sent_.empty()) return replica_->all_reduce(part);
  const Tensor copy = sent_[0].buffer.slice(0, part.count());
  backend_.convert(copy, part);
  replica_->all_reduce(copy);
  backend_.convert(part, copy);
}

void Gradients::finish_step(Comm* ends) {
  for (size_t buffer = 0; buffer < buffers_.size(); ++buffer) wait(buffer);
  // The older one first.
  for (size_t i = 0; i < sent_.size(); ++i) deliver(sent_[(next_sent_ + i) % 2]);
  for (size_t u = 0; u < layout_.units.size(); ++u) {
    const FlatUnit& unit = layout_.units[u];
    for (int half = 0; half < 2 && replica_ != nullptr; ++half) {
      sum_over_replicas(owned_part(u, half));
    }
    if (ends != nullptr && unit.name == "wte") ends->all_reduce(owned_part(u, 0));
    if (shape_.zero > 0 || !shape_.reduces_each_micro_batch()) continue;
    for (int half = 0; half < 2; ++half) {  // no sharding: every rank needs all of it
      const int64_t begin = half == 0 ? unit.begin : unit.replicated;
      const int64_t end = half == 0 ? unit.replicated : unit.end;
      if (begin < end) dp_.all_gather(flat_.slice(begin, end), owned_part(u, half));
    }
  }
}

// Where this data-parallel rank's share of the sum goes: a part of the flat buffer, or the shard
// buffer with ZeRO 2 and 3. Without ZeRO, and unless the order of sums is fixed, all of the unit.
Tensor Gradients::owned_part(size_t u, int half) {
  const FlatUnit& unit = layout_.units[u];
  const int64_t dp = layout_.dp, rank = dp_.rank();
  if (shape_.zero == 0 && !shape_.reduces_each_micro_batch()) return owned(u, half);
  if (shape_.zero >= 2) {
    return half == 0 ? flat_.slice(unit.begin / dp, unit.replicated / dp)
                     : flat_.slice(unit.replicated / dp, unit.end / dp);
  }
  const FlatRange range = half == 0 ? owned_cut(unit, dp, rank) : owned_replicated(unit, dp, rank);
  return flat_.slice(range.begin, range.end);
}

Tensor Gradients::owned(size_t u, int half) {
  const FlatUnit& unit = layout_.units[u];
  if (shape_.zero > 0) return owned_part(u, half);
  return half == 0 ? flat_.slice(unit.begin, unit.replicated)
                   : flat_.slice(unit.replicated, unit.end);
}

}  // namespace stretto
