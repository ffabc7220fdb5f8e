#include "model/gradients.h"

#include "model/table_gradient.h"

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
      buffers_.push_back(flat_.slice(unit.begin(), unit.end()));
    } else if (unit.role == Role::layer) {
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
    layers_.push_back(unit.role == Role::layer ? layer_in(unit, base_[u], shape.tp) : LayerGrads{});
  }
  if (!shape.rounds_gradients()) return;
  sent_.resize(2);
  for (size_t i = 0; i < sent_.size(); ++i) {
    sent_[i].buffer = memory.at(fmt::format("sent_grads.{}", i));
  }
  if (shape.zero >= 2) sum_ = memory.at("sent_grads.sum");
}

Tensor Gradients::part_of(size_t u, const FlatPart& part, Tensor of_unit) const {
  const int64_t unit = layout_.units[u].begin();
  return of_unit.slice(part.range.begin - unit, part.range.end - unit);
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
// head overwrites it first.
void Gradients::zero_small(size_t u, Tensor base) {
  const FlatUnit& unit = layout_.units[u];
  const TableGradient table(shape_);
  int64_t from = 0, to = 0;  // adjoining parameters are cleared together
  for (const FlatParameter& p : unit.parameters) {
    const bool accumulates = p.spec.vector() || unit.role == Role::positions ||
                             (unit.role == Role::tokens && table.starts_at_zero());
    if (!accumulates) continue;
    const int64_t begin = p.offset - unit.begin();
    if (begin != to) {
      if (to > from) backend_.fill_zero(base.slice(from, to));
      from = begin;
    }
    to = begin + p.count;
  }
  if (to > from) backend_.fill_zero(base.slice(from, to));
  // A layer buffer serves units of different shapes, so old values in the padding are cleared, too.
  if (shape_.reduces_each_micro_batch()) {
    int64_t end = 0;
    for (const FlatParameter& p : unit.parameters) {
      const int64_t begin = p.offset - unit.begin();
      if (begin > end) backend_.fill_zero(base.slice(end, begin));
      end = begin + p.count;
    }
    if (end < unit.count()) backend_.fill_zero(base.slice(end, unit.count()));
  }
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
  const std::vector<FlatPart>& parts = layout_.units[u].parts;
  // With sequence parallelism each tensor-parallel rank has only seen its own rows, so the
  // gradients of replicated parameters are summed first.
  for (const FlatPart& part : parts) {
    if (!shape_.gathers_sequence() || part.group != Group::tensor || part.count() == 0) continue;
    tp_.all_reduce(part_of(u, part, base_[u]));
  }
  if (!sent_.empty()) return send_rounded(u);
  for (const FlatPart& part : parts) {
    if (part.count() == 0) continue;
    const Tensor mine = part_of(u, part, base_[u]);
    if (shape_.reduces_each_micro_batch()) {
      pending.push_back(dp_.start_reduce_scatter(summed(part), mine, Accumulate::yes));
    } else if (shape_.zero == 0) {
      pending.push_back(dp_.start_all_reduce(mine));
    } else {  // the owned share lies inside the input
      pending.push_back(dp_.start_reduce_scatter(summed(part), mine));
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
  for (const FlatPart& part : layout_.units[u].parts) {
    RequestPtr& pending = sent.pending.emplace_back();
    if (part.count() == 0) continue;
    const Tensor whole = part_of(u, part, copy);
    const int64_t share = whole.count() / layout_.dp, begin = share * dp_.rank();
    pending = shape_.zero == 0 ? dp_.start_all_reduce(whole)
                               : dp_.start_reduce_scatter(whole.slice(begin, begin + share), whole);
  }
}

void Gradients::deliver(Sent& sent) {
  const size_t u = sent.unit;
  for (size_t i = 0; i < sent.pending.size(); ++i) {
    if (!sent.pending[i]) continue;
    sent.pending[i]->wait();
    const FlatPart& part = layout_.units[u].parts[i];
    const Tensor whole = part_of(u, part, sent.buffer), target = summed(part);
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
  sent.pending.clear();
}

void Gradients::sum_over_replicas(Tensor share) {
  if (share.count() == 0) return;
  if (sent_.empty()) return replica_->all_reduce(share);
  const Tensor copy = sent_[0].buffer.slice(0, share.count());
  backend_.convert(copy, share);
  replica_->all_reduce(copy);
  backend_.convert(share, copy);
}

void Gradients::finish_step(Comm* ends) {
  for (size_t buffer = 0; buffer < buffers_.size(); ++buffer) wait(buffer);
  // The older one first.
  for (size_t i = 0; i < sent_.size(); ++i) deliver(sent_[(next_sent_ + i) % 2]);
  for (const FlatUnit& unit : layout_.units) {
    for (const FlatPart& part : unit.parts) {
      if (replica_ != nullptr) sum_over_replicas(summed(part));
    }
    if (ends != nullptr && unit.role == Role::tokens) ends->all_reduce(summed(unit.parts.front()));
    if (shape_.zero > 0 || !shape_.reduces_each_micro_batch()) continue;
    for (const FlatPart& part : unit.parts) {  // no sharding: every rank needs all of it
      if (part.count() == 0) continue;
      dp_.all_gather(flat_.slice(part.range.begin, part.range.end), summed(part));
    }
  }
}

// Where this data-parallel rank's share of the sum goes: a part of the flat buffer, or the shard
// buffer with ZeRO 2 and 3. Without ZeRO, and unless the order of sums is fixed, the whole part.
Tensor Gradients::summed(const FlatPart& part) {
  const int64_t dp = layout_.dp;
  if (shape_.zero == 0 && !shape_.reduces_each_micro_batch()) return owned(part);
  if (shape_.zero >= 2) {
    const int64_t begin = part.shard_begin(dp);
    return flat_.slice(begin, begin + part.count() / dp);
  }
  const FlatRange range = part.owned(dp, dp_.rank());
  return flat_.slice(range.begin, range.end);
}

Tensor Gradients::owned(const FlatPart& part) {
  return shape_.zero > 0 ? summed(part) : flat_.slice(part.range.begin, part.range.end);
}

}  // namespace stretto
